// Guarantee: what a guest's shell says before it comes to a command, as its owner's `.bashrc` may, is no part of what the
// command says, nor of a file, and hinders neither.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type LineToShells, lineToShells } from '../testing/ssh-server.ts'
import { execOverSsh, runOverSsh } from './exec.ts'
import { openOverSsh, uploadOverSsh } from './files.ts'
import { SpareShell } from './warm-shell.ts'

let guest: LineToShells
let folder: string
beforeEach(async () => {
  guest = await lineToShells({ greeting: `printf 'Welcome\\n42\\nback'; echo '3 updates' >&2; ` })
  folder = mkdtempSync(join(tmpdir(), 'dormouse-greeting-'))
})
afterEach(() => {
  guest.close()
  rmSync(folder, { recursive: true })
})

const run = (command: string | string[], more = {}, spare?: SpareShell) =>
  execOverSsh(guest.line, { command, cwd: null, env: {}, stdin: null, timeoutSecs: 20, ...more } as never, spare)

test.each([false, true])('a command’s words are its own, in a shell that waited: %s', async (waited) => {
  const spare = waited ? new SpareShell(guest.line) : undefined
  spare?.prepare()
  await expect.poll(() => spare?.waits ?? true).toBe(true)
  expect(await run('echo out; echo err >&2; exit 3', {}, spare)).toMatchObject({
    exitCode: 3,
    stdout: 'out\n',
    stderr: 'err\n',
  })
})

test('its input reaches it, at its deadline it is ended, and a program that is not there is said', async () => {
  expect((await run('cat', { stdin: 'in' })).stdout).toBe('in')
  await expect(run('sleep 300', { timeoutSecs: 1 })).rejects.toMatchObject({ code: 'guest_deadline' })
  await expect.poll(() => guest.shells[1]!.process.signalCode).toBe('SIGKILL')
  await expect(run(['no-such-program'])).rejects.toMatchObject({ code: 'command_not_run' })
  expect((await runOverSsh(guest.line, 'echo 7', 5_000)).stdout.toString()).toBe('7\n')
})

test('a file goes in and comes out byte for byte', async () => {
  const path = join(folder, 'file')
  const upload = await uploadOverSsh(guest.line, path, null)
  await upload.write(Buffer.from('\nbytes'))
  expect(await upload.commit()).toBe(6)
  expect(readFileSync(path, 'utf8')).toBe('\nbytes')
  const download = await openOverSsh(guest.line, path)
  expect((await download.read())?.toString()).toBe('\nbytes')
  expect(await download.read()).toBeUndefined()
})

test('a shell that ends instead is said', async () => {
  const strict = await lineToShells({ greeting: 'echo this account is not available; exit 1; ' })
  const asked = execOverSsh(strict.line, { command: 'true', env: {}, cwd: null, stdin: null, timeoutSecs: 20 } as never)
  await expect(asked).rejects.toMatchObject({ code: 'command_not_run' })
  await expect(uploadOverSsh(strict.line, join(folder, 'x'), null)).rejects.toMatchObject({ code: 'guest_unavailable' })
  strict.close()
})
