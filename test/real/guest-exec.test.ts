// Guarantee: on real guests, whatever a command does, its answer is named and in time,
// nothing hangs, and the guest works afterwards.
import type { ExecBody } from '@dormouse/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { codeOf, GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const mib = 1024 * 1024

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

describe('in a guest', () => {
  let stage: GuestStage
  beforeAll(async () => {
    stage = await GuestStage.awake(instance)
  })
  afterEach(async () => {
    expect(await stage.run('echo works')).toBe('works\n')
  })
  afterAll(async () => {
    await stage?.desktop.destroy()
  })

  const exec = (command: string | string[], more: Partial<ExecBody> = {}) => stage.exec(command, more)
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
    expect(await exec('exit 137')).toMatchObject({ exit_code: 137, signal: null })
    expect(await exec('kill -BUS $$')).toMatchObject({ exit_code: null, signal: 7 })
    expect((await exec(['printf', '%s|', "it's", '$HOME', 'ü "x"\n'])).stdout).toBe('it\'s|$HOME|ü "x"\n|')
    expect((await exec('pwd', { cwd: '/usr/bin' })).stdout).toBe('/usr/bin\n')
    const env = { QUOTED: `it's "so" $HOME\n`, 'odd.name': '1' }
    expect((await exec('printf %s "$QUOTED"', { env })).stdout).toBe(env.QUOTED)
    expect((await exec(['env'], { env })).stdout).toContain('odd.name=1\n')
    expect((await exec('cat', { stdin: 'lines\n  ünï ' })).stdout).toBe('lines\n  ünï ')
    expect((await exec('cat')).stdout).toBe('')
  })

  test('a missing command, folder or program is reported', async () => {
    expect(await exec('no-such-command')).toMatchObject({ exit_code: 127 })
    expect(await codeOf(exec(['no-such-program']))).toBe('command_not_run')
    expect(await codeOf(exec(['/etc/passwd']))).toBe('command_not_run')
    expect(await codeOf(exec('true', { cwd: '/no/such/folder' }))).toBe('command_not_run')
    expect(await codeOf(exec('true', { cwd: '-' }))).toBe('command_not_run')
    await expect(exec(['no-such-program'])).rejects.toThrow('the guest has no program "no-such-program"')
    await expect(exec('true', { cwd: '/no/such' })).rejects.toThrow('the guest has no folder "/no/such"')
    for (const own of ['cd', 'export', ':']) expect(await codeOf(exec([own]))).toBe('command_not_run')
  })

  test('a program is the one that PATH of its own environment leads to', async () => {
    await stage.run(
      `mkdir -p /opt/tools /opt/-; cd /opt/tools; printf '#!/bin/sh\\necho mine "$@"\\n' >-ls; chmod +x ./-ls`,
    )
    await stage.run('cd /opt/tools; cp ./-ls ls; cp ./-ls mine; cp ./-ls ../-/here')
    const env = { PATH: '/opt/tools:/usr/bin:/bin', IFS: 'x', ENV: '/no/such' }
    for (const name of ['mine', 'ls', '-ls']) expect((await exec([name, '-x'], { env })).stdout).toBe('mine -x\n')
    expect((await exec(['./here'], { cwd: '/opt/-' })).stdout).toBe('mine\n')
    expect((await exec('pwd', { cwd: '../opt/-' })).stdout).toBe('/opt/-\n')
    const started = await stage.desktop.commands.start(['ls', '-x'], { envs: env })
    let printed = ''
    for await (const { bytes } of started.output()) printed += Buffer.from(bytes).toString()
    expect(printed).toBe('mine -x\n')
    await started.delete()
  })

  test('64 KiB of arguments and 1 MiB of input arrive whole', async () => {
    const big = 'x'.repeat(64 * 1024)
    expect((await exec(['sh', '-c', 'printf %s "$1" | wc -c', 'sh', big])).stdout.trim()).toBe(String(big.length))
    const quotes = "'".repeat(30_000)
    expect((await exec(['sh', '-c', 'printf %s "$1" | wc -c', 'sh', quotes])).stdout.trim()).toBe('30000')
    const most = 'x'.repeat(131_071)
    expect((await exec(['printf', '%s', most])).stdout).toHaveLength(most.length)
    expect((await exec('printf %s "$A"', { env: { A: most.slice(2) } })).stdout).toHaveLength(most.length - 2)
    const many = Array.from({ length: 14 }, () => 'y'.repeat(100_000))
    expect((await exec(['sh', '-c', 'echo $#', 'sh', ...many])).stdout).toBe('14\n')
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
    const [code, ms] = await timed(() => codeOf(exec(command, { timeout_secs: 2 })))
    expect(code).toBe('guest_deadline')
    expect(ms).toBeLessThan(6_000)
    expect((await stage.run(`ps | grep -c '[y]es$\\|[c]at /dev/zero' || :`)).trim()).toBe('0')
  })

  test('at the deadline the whole process group ends, even if it ignores signals or holds the output open', async () => {
    const stubborn = `trap '' TERM INT HUP; (trap '' TERM; while :; do sleep 77; done) & sh -c 'sleep 77 & wait' & wait; sleep 77`
    expect(await codeOf(exec(stubborn, { timeout_secs: 1 }))).toBe('guest_deadline')
    await waitFor(async () => (await stage.run(`ps | grep -c '[s]leep 77' || :`)).trim() === '0', 5_000)
  })

  test.each([
    ['a child in the background', 'sleep 300 & echo $!'],
    ['one that the shell forgot', '(sleep 300 & echo $!)'],
    [
      'a daemon that holds the output',
      `rm -f /run/left; setsid sh -c 'echo $$; : >/run/left; exec sleep 300' & until [ -e /run/left ]; do :; done`,
    ],
  ])('%s neither delays the answer nor is ended by it', async (_what, command) => {
    // Its child goes on for longer than a command may take.
    const { stdout, exit_code } = await exec(command, { timeout_secs: 60 })
    expect(exit_code).toBe(0)
    await stage.run('sleep 1')
    expect((await exec(`kill -0 ${Number(stdout)} && kill -9 ${Number(stdout)}`)).exit_code).toBe(0)
  })

  test('a child that goes on writing to the output lives on, over a sleep of its desktop too', async () => {
    const { stdout } = await exec('(while :; do echo still here; sleep 0.2; done) & echo $!')
    // The child may be the first to print.
    const pid = Number(/^\d+$/m.exec(stdout)?.[0])
    await stage.run('sleep 1')
    await stage.desktop.hibernate()
    await stage.desktop.wake()
    await stage.run('sleep 1')
    expect((await exec(`kill -0 ${pid} && kill -9 ${pid}`)).exit_code).toBe(0)
  })

  test('a guest out of memory loses the command, not itself', async () => {
    const eat = await codeOf(exec('head -c 2000000000 /dev/zero | tail -c 1999999999 >/dev/null', { timeout_secs: 60 }))
    expect(eat).toMatch(/done|guest_deadline|exec_interrupted|guest_unavailable/)
    await waitFor(async () => (await codeOf(exec('true'))).startsWith('done'), 60_000)
  })

  test('a command runs on a full and on a read-only disk', async () => {
    await stage.run(
      'fallocate -l $(( ($(df -k / | tail -n 1 | tr -s " " | cut -d " " -f 4) - 4000) * 1024 )) /filler; dd if=/dev/zero of=/filler2 bs=64k 2>/dev/null; :',
    )
    expect(await exec('echo on; echo err >&2')).toMatchObject({ stdout: 'on\n', stderr: 'err\n' })
    await stage.run('rm /filler /filler2')
    await stage.run('echo u >/proc/sysrq-trigger; sleep 1')
    expect(await exec('echo on', { stdin: 'z'.repeat(100_000) })).toMatchObject({ stdout: 'on\n' })
    await stage.run('mount -o remount,rw /')
  })
})
