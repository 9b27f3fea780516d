import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type ExecCommand, newId, refuse } from '@dormouse/contract'
import { describe, expect, test } from 'vitest'
import { until } from '../testing/bench.ts'
import { LocalAgent } from '../testing/local-agent.ts'
import { GuestAgentTransport } from './transport.ts'

const shells = ['/bin/dash', '/bin/bash'].filter((shell) => existsSync(shell))

const request = (command: string | string[], more: Partial<ExecCommand> = {}): ExecCommand => ({
  desktopId: newId(),
  generation: 1,
  command,
  cwd: null,
  env: {},
  stdin: null,
  timeoutSecs: 30,
  ...more,
})

/** Files of these commands. Other runs on this machine may have files there too. */
const litter = (agent: LocalAgent) =>
  ['/run', '/tmp'].flatMap((path) =>
    readdirSync(path).filter((name) => [...agent.nonces].some((nonce) => name.startsWith(`.dormouse-${nonce}`))),
  )

function guestWith(shell: string) {
  const agent = new LocalAgent(shell)
  const transport = new GuestAgentTransport(agent.call)
  return {
    agent,
    exec: (command: string | string[], more?: Partial<ExecCommand>) => transport.exec(request(command, more)),
  }
}

describe.each(shells)('under %s', (shell) => {
  const guest = () => guestWith(shell)

  test('a string runs in a shell, an array as it is, each with its own exit code and streams', async () => {
    const { agent, exec } = guest()
    expect(await exec('echo out; echo err >&2; exit 3')).toMatchObject({
      exitCode: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
      stdoutTruncated: false,
      stderrTruncated: false,
    })
    expect(await exec(['printf', '%s|', "it's", '$HOME', 'a b'])).toMatchObject({
      stdout: "it's|$HOME|a b|",
      exitCode: 0,
    })
    await until(() => litter(agent).length === 0)
  })

  test('input, folder and variables reach the command, whatever is in them', async () => {
    const { exec } = guest()
    expect(await exec('cat', { stdin: 'line\n  ünï ' })).toMatchObject({ stdout: 'line\n  ünï ' })
    expect(await exec('pwd', { cwd: '/usr/bin' })).toMatchObject({ stdout: '/usr/bin\n' })
    const env = { QUOTED: `it's "so" $HOME\n`, 'odd.name': '1' }
    expect(await exec('printf %s "$QUOTED"', { env })).toMatchObject({ stdout: env.QUOTED })
    expect((await exec(['env'], { env })).stdout).toContain('odd.name=1\n')
    expect(await exec('cat')).toMatchObject({ stdout: '' })
  })

  test('a signal that ended the command is a signal, and the same number as an exit code is not', async () => {
    const { exec } = guest()
    expect(await exec('kill -9 $$')).toMatchObject({ exitCode: null, signal: 9 })
    expect(await exec('exit 137')).toMatchObject({ exitCode: 137, signal: null })
    expect(await exec('no-such-program-at-all')).toMatchObject({ exitCode: 127 })
  })

  test('a missing program or folder is refused', async () => {
    const { agent, exec } = guest()
    await expect(exec(['no-such-program-at-all'])).rejects.toMatchObject({ code: 'command_not_run' })
    await expect(exec(['/etc/passwd'])).rejects.toMatchObject({ code: 'command_not_run' })
    await expect(exec('true', { cwd: '/no/such/folder' })).rejects.toMatchObject({ code: 'command_not_run' })
    await until(() => litter(agent).length === 0)
  })

  test('output above the limit is dropped and reported, and the command runs to its end', async () => {
    const { exec } = guest()
    const result = await exec('head -c 3000000 /dev/zero | tr "\\0" x; echo done >&2')
    expect(result).toMatchObject({ exitCode: 0, stderr: 'done\n', stdoutTruncated: true, stderrTruncated: false })
    expect(result.stdout).toHaveLength(1024 * 1024)
    const whole = await exec('head -c 1048576 /dev/zero | tr "\\0" x')
    expect(whole).toMatchObject({ stdoutTruncated: false })
    expect(whole.stdout).toHaveLength(1024 * 1024)
  })

  test('output that grows when it is escaped is cut to what a frame of the link can carry', async () => {
    const { exec } = guest()
    const result = await exec('head -c 1000000 /dev/zero; head -c 1000000 /dev/urandom >&2')
    expect(Buffer.byteLength(JSON.stringify(result))).toBeLessThan(4 * 1024 * 1024)
    expect(result).toMatchObject({ exitCode: 0, stdoutTruncated: true })
  })

  test('a background process that holds the output neither delays the answer nor is killed', async () => {
    const { exec } = guest()
    const result = await exec('sleep 300 & echo $!')
    expect(result).toMatchObject({ exitCode: 0, stdoutTruncated: false })
    // Throws if that process has ended.
    process.kill(Number(result.stdout))
  })

  test('nor is an answer delayed where a busy guest starts the command after its watcher', async () => {
    const agent = new LocalAgent(shell)
    const call: typeof agent.call = (execute, args) => {
      const [first, script] = (args?.arg ?? []) as string[]
      const isCommand = execute === 'guest-exec' && script?.includes('exec setsid')
      return agent.call(execute, isCommand ? { ...args, arg: [first, `sleep 1; ${script}`] } : args)
    }
    const child = 'sleep 300 & echo $!'
    const { exitCode, stdout } = await new GuestAgentTransport(call).exec(request(child, { timeoutSecs: 20 }))
    expect(exitCode).toBe(0)
    process.kill(Number(stdout))
    await until(() => litter(agent).length === 0)
  })

  test('large scripts, variables and inputs are sent in pieces that the channel can carry', async () => {
    const { exec, agent } = guest()
    const big = 'x'.repeat(90_000)
    expect(await exec(['sh', '-c', 'printf %s "$1" | wc -c', 'sh', big])).toMatchObject({ stdout: '90000\n' })
    expect(await exec('wc -c', { stdin: big.repeat(10) })).toMatchObject({ stdout: '900000\n' })
    expect(agent.largest).toBeLessThan(64 * 1024)
    await until(() => litter(agent).length === 0)
  })

  test('a file that carries a script or an input is readable and writable by root only', async () => {
    const agent = new LocalAgent(shell)
    const modes: number[] = []
    const call: typeof agent.call = async (execute, args) => {
      const answer = await agent.call(execute, args)
      if (execute === 'guest-file-open') modes.push(statSync(args?.path as string).mode & 0o777)
      return answer
    }
    const big = 'x'.repeat(90_000)
    expect(
      await new GuestAgentTransport(call).exec(request(['wc', '-c', '-'], { stdin: big, env: { big } })),
    ).toMatchObject({
      stdout: '90000 -\n',
    })
    expect(modes).toEqual([0o600, 0o600])
  })

  test('a missing program is distinguished from a program that reports another one as missing', async () => {
    const { exec } = guest()
    expect(await exec(['setsid', '-w', 'no-such-program'])).toMatchObject({ exitCode: 127 })
    expect(await exec('echo "setsid: no" >&2; exit 127')).toMatchObject({ exitCode: 127, stderr: 'setsid: no\n' })
    const script = `/tmp/dormouse-test-${newId()}`
    writeFileSync(script, '#!/no/such/shell\n', { mode: 0o755 })
    await expect(exec([script])).rejects.toMatchObject({ code: 'command_not_run' })
    rmSync(script)
  })
})

// Concurrent, since each waits for its deadline, which leaves a busy machine time to start the command.
describe.concurrent('at the deadline', () => {
  test.each(shells)('%s: the whole group is killed, also processes that ignore the gentle signals', async (shell) => {
    const { agent, exec } = guestWith(shell)
    const mark = `dormouse-test-${newId()}`
    const stubborn = `trap '' TERM INT HUP; (exec -a ${mark} sleep 60 2>/dev/null || sleep 60) & echo $! > /tmp/${mark}; wait; sleep 60`
    await expect(exec(stubborn, { timeoutSecs: 4 })).rejects.toMatchObject({ code: 'guest_deadline' })
    const child = Number((await exec(`cat /tmp/${mark}; rm /tmp/${mark}`)).stdout)
    await until(() => !alive(child))
    await until(() => litter(agent).length === 0)
  })

  test.each(shells)('%s: killing a command is retried where a busy guest does not answer', async (shell) => {
    const agent = new LocalAgent(shell)
    let unanswered = 3
    const call: typeof agent.call = async (execute, args) => {
      if (
        JSON.stringify(args ?? '').includes('kill -KILL -') &&
        !JSON.stringify(args).includes('kill -0') &&
        unanswered-- > 0
      )
        return refuse('guest_unavailable', 'the guest does not answer')
      return agent.call(execute, args)
    }
    const file = `/tmp/dormouse-test-${newId()}`
    const command = request(`echo $$ > ${file}; exec sleep 60`, { timeoutSecs: 4 })
    await expect(new GuestAgentTransport(call).exec(command)).rejects.toMatchObject({ code: 'guest_deadline' })
    const pid = Number(readFileSync(file, 'utf8'))
    rmSync(file)
    await until(() => !alive(pid))
    expect(unanswered).toBeLessThan(0)
    await until(() => litter(agent).length === 0)
  })
})

test.each([
  ['nothing', undefined],
  ['a string', 'yes'],
  ['fields of other types', { pid: 'one', exited: 1, 'buf-b64': 7 }],
])('an agent that answers %s is unavailable, whatever the call', async (_what, answer) => {
  const guest = new GuestAgentTransport(async () => answer)
  const calls = [
    guest.exec(request('true')),
    guest.exec(request('true', { stdin: 'x'.repeat(90_000) })),
    guest.createFile('/x', null),
    guest.openFile('/x'),
  ]
  const codes = calls.map((one) => one.then(String, (error) => error.code))
  expect(await Promise.all(codes)).toEqual(calls.map(() => 'guest_unavailable'))
})

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
