// Guarantee: what a guest's login shell prints before a command, as its owner's `.bashrc` may, is not part of the command's
// output, nor of a file, and hinders neither.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { wholeFile } from '../driver/guest-transport.ts'
import { type ConnectedShells, connectToShells, runOver } from '../testing/ssh-server.ts'
import { openOverSsh, uploadOverSsh } from './files.ts'

let guest: ConnectedShells
let folder: string
beforeEach(async () => {
  guest = await connectToShells({ greeting: `printf 'Welcome\\n42\\nback'; echo '3 updates' >&2; ` })
  folder = mkdtempSync(join(tmpdir(), 'dormouse-greeting-'))
})
afterEach(() => {
  guest.close()
  rmSync(folder, { recursive: true })
})

const run = (command: string | string[], more = {}) =>
  runOver(guest.connection, { command, cwd: null, env: {}, stdin: null, timeoutSecs: 20, ...more } as never)

test('a command’s output is its own', async () => {
  const result = await run('echo out; echo err >&2; exit 3')
  expect(result).toMatchObject({ exitCode: 3, stdout: 'out\n', stderr: 'err\n' })
  expect((await run('cat', { stdin: 'in' })).stdout).toBe('in')
  await expect(run(['no-such-program'])).rejects.toMatchObject({ code: 'command_not_run' })
})

test('a file goes in and comes out byte for byte', async () => {
  const path = join(folder, 'file')
  const upload = await uploadOverSsh(guest.connection, path, null)
  await upload.write(Buffer.from('\nbytes'))
  expect(await upload.commit()).toBe(6)
  expect(readFileSync(path, 'utf8')).toBe('\nbytes')
  const download = await openOverSsh(guest.connection, path, wholeFile)
  expect((await download.read())?.toString()).toBe('\nbytes')
  expect(await download.read()).toBeUndefined()
})

test('a login shell that ends instead is refused', async () => {
  const strict = await connectToShells({ greeting: 'echo this account is not available; exit 1; ' })
  const asked = runOver(strict.connection, {
    command: 'true',
    env: {},
    cwd: null,
    stdin: null,
    timeoutSecs: 20,
  } as never)
  await expect(asked).rejects.toMatchObject({ code: 'command_not_run' })
  await expect(uploadOverSsh(strict.connection, join(folder, 'x'), null)).rejects.toMatchObject({
    code: 'file_refused',
  })
  strict.close()
})
