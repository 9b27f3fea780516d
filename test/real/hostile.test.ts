// Guarantee: the worst that a guest does to commands and transfers, in short; at length and over both ways in:
// guest-*.test.ts, in `npm run test:long`.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { EventJson, Exec } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { inTerminal } from './parts/command-line.ts'
import { worksOnEntries } from './parts/entries.ts'
import { codeOf, GuestStage, md5 } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const mib = 1024 * 1024

let instance: Instance
let stage: GuestStage
beforeAll(async () => {
  instance = await Instance.start()
  stage = await GuestStage.awake(instance)
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

test('a command that prints for ever and one that ignores every signal end at their deadline', async () => {
  const stubborn = `trap '' TERM INT HUP; (trap '' TERM; while :; do sleep 77; done) & while :; do sleep 77; done`
  const asked = ['yes', stubborn].map((command) => codeOf(stage.exec(command, { timeout_secs: 1 })))
  expect(await Promise.all(asked)).toEqual(['guest_deadline', 'guest_deadline'])
  expect(await stage.run(`ps | grep -c '[y]es$\\|[s]leep 77' || :`)).toBe('0\n')
})

test('a process that a command leaves behind keeps running; the exit status and the signal of a command are reported', async () => {
  const { stdout } = await stage.exec(
    `setsid sh -c 'echo $$; : >/run/left; exec sleep 300' & until [ -e /run/left ]; do :; done`,
  )
  expect(await stage.exec(`kill -0 ${Number(stdout)} && kill -9 ${Number(stdout)}`)).toMatchObject({ exit_code: 0 })
  expect(await stage.exec('kill -9 $$')).toMatchObject({ exit_code: null, signal: 9 })
  expect(await stage.exec('kill -BUS $$')).toMatchObject({ exit_code: null, signal: 7 })
  expect(await stage.exec('exit 137')).toMatchObject({ exit_code: 137, signal: null })
})

test('more transfers and commands than a guest can handle at once all complete', async () => {
  const files = Array.from({ length: 8 }, (_, i) => ({ path: `/run/many/${i}\n "ü`, bytes: randomBytes(mib / 2) }))
  const commands = Array.from({ length: 8 }, (_, i) => stage.run(`echo ${i}`))
  await Promise.all(files.map(({ path, bytes }) => stage.put(path, bytes)))
  expect(await Promise.all(commands)).toEqual(files.map((_, i) => `${i}\n`))
  const read = await Promise.all(files.map(({ path }) => stage.get(path)))
  expect(read.map(md5)).toEqual(files.map(({ bytes }) => md5(bytes)))
  await stage.run('rm -r /run/many')
})

test('an error of the guest’s file system has its own code', async () => {
  await stage.run('mkdir -p /run/odd/dir; cd /run/odd; ln -s loop loop; mkfifo fifo')
  const refusals = await Promise.all(['dir', 'loop', 'fifo'].map((name) => codeOf(stage.put(`/run/odd/${name}`, 'x'))))
  expect(refusals).toEqual(['is_directory', 'symlink_loop', 'not_regular'])
})

test('a guest’s folders are listed and changed as they are', async () => {
  await worksOnEntries(stage)
})

test('its owner sees what it uses: processor while it computes, memory, and what it writes', async () => {
  const { client, desktop } = stage
  const work = 'dd if=/dev/zero of=/root/figures bs=1M count=4 conv=fsync 2>/dev/null'
  const busily = await desktop.commands.start(`until [ -e /run/enough ]; do ${work}; done`)
  const busy = await waitFor('figures of a busy guest', async () => {
    const { metrics } = await client.getDesktop(desktop.id, { include: 'metrics' })
    const isBusy = (metrics?.cpu_percent ?? 0) > 25 && (metrics?.disk_write_bytes_per_sec ?? 0) > 0
    return isBusy && (metrics?.memory_used_mib ?? 0) > 0 && metrics
  })
  expect(busy.memory_used_mib).toBeLessThan(busy.memory_mib!)
  await stage.run('touch /run/enough')
  await busily.wait()
  await stage.run('rm /root/figures')
  await waitFor('it to be idle', async () => {
    const { metrics } = await client.getDesktop(desktop.id, { include: 'metrics' })
    return (metrics?.cpu_percent ?? 100) < 25
  })
  const { points } = await client.getMetrics(desktop.id, { step: 10 })
  expect(points.some(({ cpu_percent: cpu }) => cpu! > 25)).toBe(true)
})

test('a guest whose QEMU is stopped answers with a refusal, and works again when QEMU continues', async () => {
  const running = codeOf(stage.exec('sleep 60'))
  await stage.run('until ps | grep -q "[s]leep 60"; do :; done')
  const { qemu } = stage
  process.kill(qemu, 'SIGSTOP')
  try {
    expect(await Promise.all([running, codeOf(stage.get('/etc/passwd'))])).toEqual([
      'exec_interrupted',
      'guest_unavailable',
    ])
  } finally {
    process.kill(qemu, 'SIGCONT')
  }
  await stage.works()
})

test('if the SSH server dies, its commands go on, and the next command works', async () => {
  const running = stage.exec('sleep 6; echo went on')
  await stage.exec('(until ps | grep -q "[s]leep 6"; do :; done; killall -9 sshd) >/dev/null 2>&1 </dev/null & :')
  expect(await running).toMatchObject({ exit_code: 0, stdout: 'went on\n' })
  await stage.works()
})

test('an exec outlives the agent’s death and a sleep: each line once, and its exit code', async () => {
  const loop =
    'n=0; while [ $n -lt 30 ]; do echo line $n; n=$((n + 1)); sleep 0.1; done; read -r word; echo $word; exit 5'
  const exec = await stage.desktop.commands.start(loop, { stdin: true })
  const terminal = await stage.desktop.commands.start('stty size; cat', { tty: { cols: 100, rows: 30 } })
  const output = textOf(exec)
  await instance.kill('agent')
  await stage.works()
  await stage.desktop.hibernate()
  await stage.desktop.wake()
  await exec.sendStdin('said\n')
  await terminal.sendStdin('typed\n', { eof: true })
  expect(await exec.wait()).toMatchObject({ exitCode: 5, signal: null, reason: null })
  expect(await output).toBe(`${Array.from({ length: 30 }, (_, n) => `line ${n}\n`).join('')}said\n`)
  await terminal.wait()
  expect(await textOf(terminal)).toBe('30 100\r\ntyped\r\ntyped\r\n')
  // What serves the calls has a parent; so has the supervisor of a command whose end is waited for.
  const orphans = `for p in /proc/[0-9]*; do
    grep -q '^PPid:.1$' $p/status && tr '\\0' ' ' <$p/cmdline | grep -q ' serve ' && echo $p; done 2>/dev/null; :`
  await waitFor('the supervisors to end', async () => (await stage.run(orphans)) === '')
})

test('a terminal at the command line passes keys and Ctrl-C, can be left and joined again, and exits as its program', async () => {
  const script = 'trap "echo caught" INT; stty size; sleep 1000; echo again; read -r word; echo "got $word"; exit 4'
  const { id } = stage.desktop
  const first = inTerminal(instance, ['exec', '-it', id, '--', 'sh', '-c', script])
  let shown = ''
  const show = (bytes: Buffer) => {
    shown += bytes
  }
  first.stdout.on('data', show)
  await waitFor('the program to start', () => shown.includes('24 80'))
  first.stdin.write('\x03')
  await waitFor('Ctrl-C to arrive', () => shown.includes('caught') && shown.includes('again'))
  first.stdin.write('\x1d')
  expect(await once(first, 'close')).toEqual([0, null])
  const [, execId = ''] = /dormouse attach \S+ ([0-9a-f-]{36})/.exec(shown) ?? []
  const second = inTerminal(instance, ['attach', id, execId])
  second.stdout.on('data', show)
  second.stdin.write('hello\r')
  expect(await once(second, 'close')).toEqual([4, null])
  expect(shown).toContain('got hello')
})

test('a process that its kernel kills for want of memory and a full disk are events of its desktop', async () => {
  const { client, desktop } = stage
  const { cursor } = await client.listEvents({ limit: 1_000 })
  const eventOf = (type: EventJson['type']) =>
    waitFor(type, async () => {
      const { events } = await client.listEvents({ types: [type], desktopId: desktop.id, after: cursor })
      return events[0]?.data
    })
  const greedy = 'echo 1000 >/proc/self/oom_score_adj; exec tail /dev/zero'
  expect(await stage.exec(greedy, { timeout_secs: 60 })).toMatchObject({ signal: 9 })
  expect(await eventOf('desktop.out_of_memory')).toMatchObject({ process: 'tail', kills: 1 })
  // All but 4 MiB are taken without being written.
  await stage.run(`set -- $(df -k / | tail -n 1); fallocate -l $((($4 - 4096) * 1024)) /full; sync`)
  const writing = await desktop.commands.start(
    'until [ -e /run/told ]; do dd if=/dev/zero of=/some bs=1M count=2 conv=fsync 2>/dev/null; sleep 1; done',
  )
  expect(await eventOf('desktop.disk_full')).toMatchObject({ where: 'guest', path: '/' })
  await stage.run('touch /run/told; rm /full /some')
  await writing.wait()
})

async function textOf(exec: Exec): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const { bytes } of exec.output()) text += decoder.decode(bytes, { stream: true })
  return text
}
