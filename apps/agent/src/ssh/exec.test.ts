// Guarantee: whatever login shell a guest has and whatever it sends, the requested program runs exactly as given, or is refused by
// name, and the answer is bounded. (With guests: test/real/guest-exec.test.ts.)
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ExecCommand, newId, Refusal } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ConnectedShells, connectToServer, connectToShells, runOver } from '../testing/ssh-server.ts'
import { ScriptStream } from './script-stream.ts'

const command = (words: string | string[] = 'true', more: Partial<ExecCommand> = {}): ExecCommand => {
  const target = { desktopId: newId(), generation: 1 }
  return { ...target, command: words, cwd: null, env: {}, stdin: null, timeoutSecs: 20, ...more }
}

test('a login shell that never stops printing before the command is refused, and its channel closed', async () => {
  const closed = Promise.withResolvers<void>()
  const guest = await connectToServer((channel) => {
    const pour = () => {
      while (channel.write(Buffer.alloc(32 * 1024, 'x')));
    }
    channel.on('drain', pour).once('close', closed.resolve).resume()
    pour()
  })
  await expect(runOver(guest.connection, command())).rejects.toMatchObject({ code: 'command_not_run' })
  await closed.promise
  guest.close()
})

test('a connection that has ended is not opened again, nor kept where it was being opened', async () => {
  const guest = await connectToServer((channel) => channel.end())
  guest.connection.close()
  const connecting = guest.connection.connect()
  guest.connection.end()
  await expect(connecting).rejects.toMatchObject({ code: 'guest_unavailable' })
  await expect(guest.connection.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(guest.connection.isConnected).toBe(false)
  guest.close()
})

test('a start line in pieces is separated from the output after it', async () => {
  const guest = await connectToServer((channel, script) => {
    const start = /^echo "(.*) \$\$"/.exec(script)![1]
    for (const piece of ['greeting', `${start} 12`, '34\nou', 't']) channel.write(piece)
    channel.exit(0)
    channel.end()
  })
  const stream = await ScriptStream.start(guest.connection, 'true')
  const pieces = await Array.fromAsync({ length: 2 }, () => stream.read())
  expect(Buffer.concat(pieces.map((piece) => piece ?? Buffer.alloc(0))).toString()).toBe('out')
  guest.close()
})

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-command-'))
  const program = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), 0o755)
  }
  for (const name of ['tools', '-', '-P', 'a folder']) mkdirSync(join(folder, name))
  for (const name of ['tools/mine', 'tools/-mine', 'tools/my=ne', 'tools/ls', 'here'])
    program(name, `#!/bin/sh\nn=$0; printf "%s|" "$\{n##*/}" "$@" "$A"`)
  program('tools/uninterpreted', '#!/no/such/interpreter\n')
  writeFileSync(join(folder, 'tools/plain'), 'no program')
})
afterAll(() => rmSync(folder, { recursive: true }))

/** As a guest's login shell: it gets one script. */
const shells = [['dash'], ['bash'], ['busybox', 'sh']].filter(
  ([program, ...args]) => spawnSync(program!, [...args, '-c', 'true']).status === 0,
)
test('the shells of guests are here to be tested with', () => expect(shells.length).toBeGreaterThan(1))

describe.each(shells)('in %s %s', (...words) => {
  let guest: ConnectedShells
  beforeAll(async () => {
    const shell = join(folder, 'shell')
    writeFileSync(shell, `#!/bin/sh\nexec ${words.filter(Boolean).join(' ')} "$@"\n`, { mode: 0o755 })
    guest = await connectToShells({ shell })
  })
  afterAll(() => guest.close())

  const run = async (program: string | string[], more: Partial<ExecCommand> = {}) => {
    try {
      return (await runOver(guest.connection, command(program, { cwd: folder, ...more }))).stdout
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return `${error.code}: ${error.detail}`
    }
  }
  const tools = () => ({ PATH: `${folder}/tools:/usr/bin:/bin` })

  test('its output, errors, input, exit code and signal are its own', async () => {
    const result = await runOver(guest.connection, command('cat; echo err >&2; exit 3', { stdin: 'in\n' }))
    expect(result).toMatchObject({ exitCode: 3, signal: null, stdout: 'in\n', stderr: 'err\n', stdoutTruncated: false })
    expect(await runOver(guest.connection, command('kill -9 $$'))).toMatchObject({ exitCode: null, signal: 9 })
    const long = 'x'.repeat(1_500_000)
    expect(await run('wc -c', { stdin: long })).toBe('1500000\n')
    const cut = await runOver(guest.connection, command('yes 0123456 | head -c 3000000'))
    expect([cut.stdout.length, cut.stdoutTruncated]).toEqual([1_048_576, true])
  })

  test('what it leaves in the background holds nothing up', async () => {
    expect(await run('sleep 300 & echo begun')).toBe('begun\n')
  })

  test('a program is looked up in the PATH of its own environment, whatever its name', async () => {
    expect(await run(['mine', '-x', 'a b'], { env: tools() })).toBe('mine|-x|a b||')
    expect(await run(['-mine', '--'], { env: { ...tools(), A: '1' } })).toBe('-mine|--|1|')
    expect(await run(['my=ne', 'B=2'], { env: { ...tools(), A: '1' } })).toBe('my=ne|B=2|1|')
    expect(await run(['ls', 'x'], { env: tools() })).toBe('ls|x||')
    expect(await run(['here'], { env: { PATH: '' } })).toBe('here||')
    expect(await run(['here'], { env: { PATH: '/usr/bin:' } })).toBe('here||')
    expect(await run(['./here', '~', '$A', '*'])).toBe('here|~|$A|*||')
    expect(await run(['./mine'], { cwd: `${folder}/tools` })).toBe('mine||')
  })

  test('what is no program is refused by its name, also what a shell has of its own', async () => {
    for (const name of ['cd', 'export', ':', 'mine', 'no-such', '', './no-such'])
      expect(await run([name])).toContain(`command_not_run: the guest has no program "${name}"`)
    expect(await run(['tools'])).toContain('no program "tools"')
    expect(await run(['./tools'])).toContain('no program "./tools"')
    expect(await run(['plain'], { env: tools() })).toContain('cannot execute "plain"')
    expect(await run(['./tools/plain'])).toContain('cannot execute "./tools/plain"')
    expect(await run(['./tools/uninterpreted'])).toContain('or lacks its interpreter')
    expect(await run(['uninterpreted'], { env: tools() })).toContain('or lacks its interpreter')
    expect(await run(['sh'], { env: { PATH: '/no/such' } })).toContain('no program "sh"')
  })

  test('a folder is the one of that name, and prints nothing; another is refused by its name', async () => {
    for (const name of ['-', '-P', 'a folder', '.', 'tools/../-']) {
      const there = execFileSync('pwd', { cwd: join(folder, name), encoding: 'utf8' })
      expect(await run('pwd -P', { cwd: `${folder}/${name}` })).toBe(there)
    }
    for (const cwd of ['~', '--', 'no-such', '/no/such', '$HOME'])
      expect(await run('pwd', { cwd })).toContain(`command_not_run: the guest has no folder "${cwd}"`)
    expect(await run('pwd', { cwd: `${folder}/here` })).toContain('/here" is not a folder')
  })

  test('variables reach the command whole and change nothing before it', async () => {
    const env = { IFS: 'x', ENV: '/no/such', BASH_ENV: '/no/such', PWD: '/nowhere', CDPATH: '/', PPID: '1', UID: '7' }
    const odd = { '-i': 'a', 'a.b': 'c=d', LD_PRELOAD: '/no/such.so', HOME: '' }
    const found = (await run(['env', '-0'], { env: { ...env, ...odd, PATH: '/usr/bin:/bin' } })).split('\0')
    for (const [name, value] of Object.entries({ ...env, ...odd })) expect(found).toContain(`${name}=${value}`)
  })

  test('as much as Linux takes as one argument or variable runs, and what it refuses is refused here', async () => {
    const most = 'x'.repeat(131_071)
    expect(await run(['printf', '%s', most])).toHaveLength(most.length)
    expect(await run(['sh', '-c', 'printf %s "$A"'], { env: { A: most.slice(2) } })).toHaveLength(most.length - 2)
    expect(await run(`${' '.repeat(131_064)}echo it`)).toBe('it\n')
    expect(await run(['/usr/bin/printf', '%s', `${most}x`])).toContain('are too long for the guest')
    expect(await run(['/usr/bin/env'], { env: { A: most } })).toContain('are too long for the guest')
    expect(await run(['printf', '%s', ...Array(180_000).fill('a')])).toHaveLength(180_000)
  })

  test('a command that ends as a program that cannot start does is its own', async () => {
    expect(await run('nosuch; echo sh: nosuch: not found >&2; exit 127')).toBe('')
    expect(await run(['sh', '-c', 'env nosuch; exit 127'])).toBe('')
    expect(await run(['setsid', '-w', 'no-such-program'])).toBe('')
  })
})
