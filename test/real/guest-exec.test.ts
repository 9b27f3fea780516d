// Guarantee: on real guests, over SSH and over the guest agent, whatever a command does, its answer is named and in time,
// nothing hangs, and the guest works afterwards.
import { type Client, createClient, type Desktop } from '@dormouse/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Instance, until } from './instance.ts'
import { desktopOver, makeImages, reachedOver, transports } from './transports.ts'
import { guest } from './witness.ts'

const mib = 1024 * 1024

let instance: Instance
beforeAll(async () => {
  await makeImages()
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

describe.each(transports)('over %s', (transport) => {
  let desktop: Desktop
  let client: Client
  beforeAll(async () => {
    desktop = await desktopOver(instance, transport)
    client = createClient({ baseUrl: instance.local.base_url, apiKey: instance.local.api_key, retries: 0 })
  })
  afterEach(async () => {
    expect(await guest(desktop, 'echo works')).toBe('works\n')
  })
  afterAll(async () => {
    await desktop?.destroy()
  })

  const exec = (command: string | string[], more: object = {}) => client.exec(desktop.id, { command, ...more })
  const failure = (asked: Promise<unknown>) =>
    asked.then(
      (value) => `done: ${JSON.stringify(value)}`,
      (error) => error.problem?.code ?? String(error),
    )
  /** How long an answer took, in ms. */
  const timed = async <T>(work: () => Promise<T>): Promise<[T, number]> => {
    const started = performance.now()
    const value = await work()
    return [value, performance.now() - started]
  }

  test('exit code, signal, streams, folder, variables and input are the command’s own', async () => {
    expect(await exec('echo out; echo err >&2; exit 3')).toMatchObject({
      exit_code: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
    })
    expect(await exec('kill -9 $$')).toMatchObject({ exit_code: null, signal: 9 })
    expect(await exec('kill -TERM $$')).toMatchObject({ exit_code: null, signal: 15 })
    expect((await exec(['printf', '%s|', "it's", '$HOME', 'ü "x"\n'])).stdout).toBe('it\'s|$HOME|ü "x"\n|')
    expect((await exec('pwd', { cwd: '/usr/bin' })).stdout).toBe('/usr/bin\n')
    const env = { QUOTED: `it's "so" $HOME\n`, 'odd.name': '1' }
    expect((await exec('printf %s "$QUOTED"', { env })).stdout).toBe(env.QUOTED)
    expect((await exec(['env'], { env })).stdout).toContain('odd.name=1\n')
    expect((await exec('cat', { stdin: 'lines\n  ünï ' })).stdout).toBe('lines\n  ünï ')
    expect((await exec('cat')).stdout).toBe('')
  })

  test('a command, a folder or a program that is not there is said', async () => {
    expect(await exec('no-such-command')).toMatchObject({ exit_code: 127 })
    expect(await failure(exec(['no-such-program']))).toBe('command_not_run')
    expect(await failure(exec(['/etc/passwd']))).toBe('command_not_run')
    expect(await failure(exec('true', { cwd: '/no/such/folder' }))).toBe('command_not_run')
  })

  test('64 KiB of arguments and 1 MiB of input arrive whole', async () => {
    const big = 'x'.repeat(64 * 1024)
    expect((await exec(['sh', '-c', 'printf %s "$1" | wc -c', 'sh', big])).stdout.trim()).toBe(String(big.length))
    const quotes = "'".repeat(30_000)
    expect((await exec(['sh', '-c', 'printf %s "$1" | wc -c', 'sh', quotes])).stdout.trim()).toBe('30000')
    expect((await exec('wc -c', { stdin: 'y'.repeat(mib) })).stdout.trim()).toBe(String(mib))
    expect(await exec('exit 4', { stdin: 'y'.repeat(mib) })).toMatchObject({ exit_code: 4 })
  })

  test('output beyond 1 MiB is dropped and said, bytes that are no text are replaced, and the end is the command’s', async () => {
    const long = await exec('head -c 3000000 /dev/zero | tr "\\0" x; echo end >&2; exit 5')
    expect(long).toMatchObject({ exit_code: 5, stdout_truncated: true, stderr: 'end\n', stderr_truncated: false })
    expect(long.stdout).toHaveLength(mib)
    expect((await exec(`printf 'a\\377\\376b'`)).stdout).toBe('a\ufffd\ufffdb')
    expect(await exec('head -c 200000 /dev/urandom; head -c 200000 /dev/urandom >&2')).toMatchObject({ exit_code: 0 })
  })

  test.each(['yes', 'cat /dev/zero'])('%s is ended at its deadline and costs nobody anything', async (command) => {
    const [code, ms] = await timed(() => failure(exec(command, { timeout_secs: 2 })))
    expect(code).toBe('guest_deadline')
    expect(ms).toBeLessThan(6_000)
    expect((await guest(desktop, `ps | grep -c '[y]es$\\|[c]at /dev/zero' || :`)).trim()).toBe('0')
  })

  test('at the deadline the whole group goes, also what ignores gentler signals and what holds the output', async () => {
    const stubborn = `trap '' TERM INT HUP; (trap '' TERM; while :; do sleep 77; done) & sh -c 'sleep 77 & wait' & wait; sleep 77`
    expect(await failure(exec(stubborn, { timeout_secs: 1 }))).toBe('guest_deadline')
    await until(async () => (await guest(desktop, `ps | grep -c '[s]leep 77' || :`)).trim() === '0', 5_000)
  })

  test.each([
    ['a child in the background', 'sleep 300 & echo $!'],
    ['one that the shell forgot', '(sleep 300 & echo $!)'],
    ['a daemon that holds the output', `setsid sh -c 'echo $$; exec sleep 300' & sleep 0.3`],
  ])('%s neither delays the answer nor is ended by it', async (_what, command) => {
    const [{ stdout, exit_code }, ms] = await timed(() => exec(command))
    expect(exit_code).toBe(0)
    expect(ms).toBeLessThan(2_000)
    await guest(desktop, 'sleep 1')
    expect((await exec(`kill -0 ${Number(stdout)} && kill -9 ${Number(stdout)}`)).exit_code).toBe(0)
  })

  test('a child that goes on writing to the output lives on, over a sleep of its desktop too', async () => {
    const { stdout } = await exec('(while :; do echo still here; sleep 0.2; done) & echo $!')
    const pid = Number(stdout.split('\n')[0])
    await guest(desktop, 'sleep 1')
    await desktop.hibernate()
    await desktop.wake()
    await guest(desktop, 'sleep 1')
    expect((await exec(`kill -0 ${pid} && kill -9 ${pid}`)).exit_code).toBe(0)
  })

  test('a fork bomb is ended at its deadline, or by the guest, and the guest comes back', async () => {
    const bomb = 'ulimit -u 300 2>/dev/null; b() { b | b & }; b; sleep 60'
    const code = await failure(exec(bomb, { timeout_secs: 3 }))
    expect(code).toMatch(/guest_deadline|guest_unavailable|done/)
    await until(
      async () => (await failure(exec('killall -9 sh sleep 2>/dev/null; true'))) !== 'guest_unavailable',
      60_000,
    )
    await until(async () => (await failure(exec('true'))).startsWith('done'), 60_000)
  })

  test('a guest out of memory loses the command, not itself', async () => {
    const eat = await failure(
      exec('head -c 2000000000 /dev/zero | tail -c 1999999999 >/dev/null', { timeout_secs: 60 }),
    )
    expect(eat).toMatch(/done|guest_deadline|guest_unavailable/)
    await until(async () => (await failure(exec('true'))).startsWith('done'), 60_000)
  })

  test('a full and a read-only disk do not hinder a command', async () => {
    await guest(
      desktop,
      'fallocate -l $(( ($(df -k / | tail -n 1 | tr -s " " | cut -d " " -f 4) - 4000) * 1024 )) /filler; dd if=/dev/zero of=/filler2 bs=64k 2>/dev/null; :',
    )
    expect(await exec('echo on; echo err >&2')).toMatchObject({ stdout: 'on\n', stderr: 'err\n' })
    await guest(desktop, 'rm /filler /filler2')
    await guest(desktop, 'echo u >/proc/sysrq-trigger; sleep 1')
    expect(await exec('echo on', { stdin: 'z'.repeat(100_000) })).toMatchObject({ stdout: 'on\n' })
    await guest(desktop, 'mount -o remount,rw /')
  })

  test('50 at once on one desktop keep to themselves', async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => exec(`echo ${i}; echo e${i} >&2; exit ${i}`)),
    )
    expect(answers.map(({ stdout, stderr, exit_code }) => [stdout, stderr, exit_code])).toEqual(
      Array.from({ length: 50 }, (_, i) => [`${i}\n`, `e${i}\n`, i]),
    )
  })

  test('a desktop that hibernates in the middle of a command answers 503 within two seconds of it', async () => {
    const running = failure(exec('sleep 60'))
    await guest(desktop, 'sleep 0.5')
    await desktop.hibernate()
    const [code, ms] = await timed(() => running)
    expect(['guest_unavailable', 'host_unreachable']).toContain(code)
    expect(ms).toBeLessThan(2_000)
    await desktop.wake()
  })

  test('a guest that is rebooted by the command answers 503, and commands work again', async () => {
    const [code] = await timed(() => failure(exec('reboot -f; sleep 30')))
    expect(code).toBe('guest_unavailable')
    await until(async () => (await failure(exec('true'))).startsWith('done'), 60_000)
  })

  test('a guest agent that is stopped or gone leaves SSH at work; without SSH it is an honest 503', async () => {
    await reachedOver(desktop, transport)
    await exec('(sleep 0.2; killall -STOP qemu-ga; sleep 15; killall -CONT qemu-ga) >/dev/null 2>&1 </dev/null & :')
    await new Promise((resolve) => setTimeout(resolve, 600))
    const [code, ms] = await timed(() => failure(exec('true')))
    expect(code).toMatch(transport === 'ssh' ? /^done/ : /guest_unavailable/)
    expect(ms).toBeLessThan(3_000)
    await until(async () => (await failure(exec('true'))).startsWith('done'), 30_000)
  })

  test.runIf(transport === 'ssh')(
    'an SSH server that is killed loses its commands at once, and the next one works',
    async () => {
      const running = timed(() => failure(exec('sleep 60')))
      await exec('(sleep 0.5; killall -9 sshd) >/dev/null 2>&1 </dev/null &')
      const [code, ms] = await running
      expect([code, ms < 4_000]).toEqual(['guest_unavailable', true])
      await until(async () => (await failure(exec('true'))).startsWith('done'), 20_000)
    },
  )

  test('a desktop that is destroyed in the middle of a command answers at once', async () => {
    const doomed = await desktopOver(instance, transport)
    const running = failure(client.exec(doomed.id, { command: 'sleep 60' }))
    await guest(doomed, 'sleep 0.5')
    await doomed.destroy()
    const [code, ms] = await timed(() => running)
    expect(code).toMatch(/guest_unavailable|host_unreachable/)
    expect(ms).toBeLessThan(2_000)
  })
})
