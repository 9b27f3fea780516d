// Guarantee: the main job, by `npm start` and the SDK, on real QEMU: desktops that sleep and wake, and lose nothing.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type ActivityClass, Desktop, type StreamClaim } from '@dormouse/client'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RfbClient } from '../integration/parts/rfb-client.ts'
import { waitFor } from '../wait-for.ts'
import { typed } from './parts/command-line.ts'
import { md5 } from './parts/guest-stage.ts'
import { HandedOn } from './parts/handed-on.ts'
import { Instance } from './parts/instance.ts'
import { clockError, expectKept, guest, leaveWitness, lookAt } from './parts/witness.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const cycles = long ? 10 : 2
const cyclesTogether = 10
const count = 5
/** The memory of each of them. */
const memoryMiB = long ? 64 : 16

let instance: Instance
beforeAll(async () => {
  // As it is without settings: the first desktop boots, the next ones begin with its template.
  instance = await Instance.start({ DORMOUSE_AGENT_TEMPLATES_MIB: '8192' })
})
/** A try that failed leaves nothing to the next one. */
const desktops = new HandedOn(async () => {
  if (!existsSync(join(instance.dataDir, 'local.json'))) await instance.up()
  const found = await instance.client.listDesktops()
  const left = found.desktops.filter(({ state }) => state !== 'destroyed')
  await Promise.all(left.map(({ id }) => instance.client.settle('destroy', id)))
  return wakeNew()
})

async function wakeNew(): Promise<Desktop> {
  const desktop = await instance.create()
  expect((await desktop.wake()).result?.resumedFrom).toBe('image')
  return desktop
}
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

test('local.json has the address and the keys, and only its owner can read it', () => {
  expect(statSync(join(instance.dataDir, 'local.json')).mode & 0o777).toBe(0o600)
  expect(instance.local).toMatchObject({
    base_url: expect.stringMatching(/^http:/),
    api_key: expect.stringMatching(/^svc_sk_/),
  })
})

test(`one desktop keeps counter, boot, ${memoryMiB} MiB of memory and its files over ${cycles} sleeps, and its clock is right`, async () => {
  const desktop = await desktops.take()
  let seen = await leaveWitness(desktop, memoryMiB)
  for (let cycle = 0; cycle < cycles; cycle++) {
    expect((await desktop.hibernate()).result?.desktopState).toBe('hibernated')
    expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
    expect(await clockError(desktop)).toBeLessThan(1)
    seen = await expectKept(desktop, seen)
  }
  desktops.giveBack(desktop)
})

test('a desktop that sleeps wakes once for all that use it, and keeps what it had; without a word it stays asleep', async () => {
  const desktop = await desktops.take()
  const seen = await leaveWitness(desktop, memoryMiB)
  await desktop.hibernate()
  await expect(desktop.files.read('/etc/hostname')).rejects.toMatchObject({ code: 'not_awake' })
  await desktop.change({ wakeOn: ['exec', 'screen'] })
  await expect(desktop.files.read('/etc/hostname')).rejects.toMatchObject({ code: 'not_awake' })
  const { generation } = desktop
  const [ran, read, screen] = await Promise.all([
    Promise.all(Array.from({ length: 5 }, () => desktop.commands.run('echo here'))),
    desktop.files.read('/etc/hostname', { wake: 'allow' }),
    desktop.screenshot(),
  ])
  expect(ran.map(({ stdout }) => stdout)).toEqual(Array(5).fill('here\n'))
  expect(ran.find(({ woke }) => woke)?.woke).toEqual({ path: 'warm', ms: expect.any(Number) })
  expect([read.length > 0, screen.length > 0]).toEqual([true, true])
  expect((await desktop.refresh()).generation).toBe(generation + 1)
  await expectKept(desktop, seen)
  await desktop.change({ wakeOn: [] })
  desktops.giveBack(desktop)
})

test.runIf(long)(`${count} desktops at once keep theirs over ${cyclesTogether} sleeps`, async () => {
  const first = await desktops.take()
  const all = [first, ...(await Promise.all(Array.from({ length: count - 1 }, wakeNew)))]
  let seen = await Promise.all(all.map((desktop) => leaveWitness(desktop, memoryMiB)))
  for (let cycle = 0; cycle < cyclesTogether; cycle++) {
    await Promise.all(all.map((desktop) => desktop.hibernate()))
    const woken = await Promise.all(all.map((desktop) => desktop.wake()))
    expect(woken.map(({ result }) => result?.resumedFrom)).toEqual(all.map(() => 'memory'))
    seen = await Promise.all(all.map((desktop, i) => expectKept(desktop, seen[i]!)))
  }
  await Promise.all(all.slice(1).map((desktop) => desktop.destroy()))
  desktops.giveBack(first)
})

const idleSecs = long ? 5 : 2
const usedSecs = long ? 20 : 4

/** Waits until nothing but this keeps the desktop awake. */
const keptBy = async (desktop: Desktop, reason: string) => {
  await waitFor(async () => {
    const { awakeBecause } = await desktop.idle()
    return awakeBecause.length === 1 && awakeBecause[0]!.reason === reason
  })
  expect((await desktop.refresh()).state).toBe('awake')
}
const fallsAsleep = (desktop: Desktop) => waitFor(async () => (await desktop.refresh()).state === 'hibernated')
const hibernatesAfter = (desktop: Desktop, secs: number, idlePolicy: ActivityClass[] | null = null) =>
  desktop.changeIdle({ idleTimeoutSecs: secs, idlePolicy })

async function screenOf(desktop: Desktop, claim: StreamClaim): Promise<RfbClient> {
  return RfbClient.connect((await instance.client.openStream(desktop.id, { claim })).websocket_url)
}

test(`after ${idleSecs} s a desktop sleeps that is only watched, and not while it runs a command, is typed to or is locked`, async () => {
  const desktop = await desktops.take()
  const seen = await leaveWitness(desktop, memoryMiB)
  const typist = await screenOf(desktop, 'control')
  const typing = setInterval(() => typist.type(0x20), 300)
  using _ = { [Symbol.dispose]: () => clearInterval(typing) }
  await hibernatesAfter(desktop, idleSecs)
  expect(await guest(desktop, `sleep ${usedSecs}; echo whole`)).toBe('whole\n')
  await keptBy(desktop, 'screen')

  await desktop.lock('test', { reason: 'a test', forMs: 3_600_000 })
  clearInterval(typing)
  const viewer = await screenOf(desktop, 'view')
  const watching = setInterval(() => viewer.ask(), 300)
  using _watching = { [Symbol.dispose]: () => clearInterval(watching) }
  await keptBy(desktop, 'wake_lock')
  await desktop.unlock('test')
  await fallsAsleep(desktop)
  const { operations } = await instance.client.listOperations(desktop.id)
  expect(operations[0]).toMatchObject({ kind: 'hibernate', requested_by: 'idle', state: 'succeeded' })
  await hibernatesAfter(desktop, 1_800)
  expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
  await expectKept(desktop, seen)
  desktops.giveBack(desktop)
})

/** Pauses the guest from outside, as `virsh suspend` does. */
async function suspend(desktop: Desktop): Promise<void> {
  // The path of the socket itself is too long for one.
  const short = join(mkdtempSync(join(tmpdir(), 'dormouse-')), 'run')
  symlinkSync(join(instance.dataDir, 'libvirt/run'), short)
  using host = await LibvirtHost.open({ socketPath: join(short, 'libvirt-sock') })
  const domains = await host.domains.list()
  await domains.find(({ uuid }) => uuid === desktop.id)!.suspend()
  rmSync(dirname(short), { recursive: true })
}

/** Linux damages its own memory if it reports free pages while its devices sleep (decision 99). */
const reportsNoFreePages =
  'cd /sys/bus/virtio/drivers/virtio_balloon; for d in virtio*; do [ ! -e $d ] || echo $d > unbind; done'

const suspendsItself = (how: 'mem' | 'freeze') => async (desktop: Desktop) => {
  await guest(desktop, reportsNoFreePages)
  // Nothing waits for its end: that comes after the wake.
  await desktop.commands.start(`sleep 2; echo ${how} > /sys/power/state`)
}
const standstills: [string, (desktop: Desktop) => Promise<unknown>][] = [
  ['suspends itself to memory', suspendsItself('mem')],
  ['suspends itself to idle', suspendsItself('freeze')],
  ['is suspended from outside', suspend],
]

test.each(standstills)('a guest that %s is refused by name, and a wake brings its memory back', async (_, stop) => {
  const desktop = await desktops.take()
  const seen = await leaveWitness(desktop, 4)
  await stop(desktop)
  const told = await waitFor(async () => {
    // Not one that lasts: if it starts just before the hibernation, it is followed until the desktop wakes.
    const { code } = await instance.client.exec(desktop.id, { command: 'true', timeout_secs: 5 }).then(
      () => ({ code: null }),
      (error: { code?: string }) => ({ code: error.code }),
    )
    return ['guest_suspended', 'not_awake'].includes(code ?? '') && code
  })
  expect(told).toBeTruthy()
  await waitFor(async () => {
    const { operations } = await instance.client.listOperations(desktop.id)
    return operations[0]?.kind === 'hibernate'
  })
  expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
  await expectKept(desktop, seen)
  const { operations } = await instance.client.listOperations(desktop.id)
  expect(operations[1]).toMatchObject({ kind: 'hibernate', requested_by: 'host', state: 'succeeded' })
  desktops.giveBack(desktop)
})

test.runIf(long)(
  'a busy guest stays awake where its policy counts that, and ten sleeps by idle keep its memory',
  async () => {
    const desktop = await desktops.take()
    // The counter of an earlier test uses the processor, too.
    await guest(desktop, '[ ! -e /run/counting ] || kill $(cat /run/counting); rm -f /run/counting')
    await guest(desktop, '(while :; do :; done) > /dev/null 2>&1 < /dev/null & echo $! > /run/burning')
    await hibernatesAfter(desktop, idleSecs, ['cpu'])
    await keptBy(desktop, 'cpu')
    await guest(desktop, 'kill $(cat /run/burning)')
    await fallsAsleep(desktop)
    await hibernatesAfter(desktop, idleSecs)
    await desktop.wake()
    let seen = await leaveWitness(desktop, memoryMiB)
    for (let cycle = 0; cycle < 10; cycle++) {
      await fallsAsleep(desktop)
      expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
      seen = await expectKept(desktop, seen)
    }
    await hibernatesAfter(desktop, 1_800)
    desktops.giveBack(desktop)
  },
)

test.runIf(long)('a guest that powers itself off is stopped, keeps its disk, and boots from it', async () => {
  const desktop = await desktops.take()
  await guest(desktop, 'echo kept > /root/kept; sync; (sleep 0.3; poweroff -f) > /dev/null 2>&1 < /dev/null &')
  await expect.poll(async () => (await desktop.refresh()).state).toBe('stopped')
  expect((await desktop.wake()).result?.resumedFrom).toBe('disk')
  expect(await guest(desktop, 'cat /root/kept')).toBe('kept\n')
  desktops.giveBack(desktop)
})

test('the command line finds the service and does the main job; commands and files pass unchanged', async () => {
  const cli = async (...words: string[]) => {
    const { code, stdout, stderr } = await typed(instance, words)
    expect({ code, stderr }).toMatchObject({ code: 0 })
    return stdout
  }
  const desktop = await desktops.take()
  const { id } = desktop
  const state = async (...words: string[]) => (JSON.parse(await cli(...words, '--json')) as { state: string }).state
  expect(await state('hibernate', id)).toBe('succeeded')
  expect(await state('wake', id)).toBe('succeeded')
  expect(await cli('exec', id, '--', 'echo', 'hello from the guest')).toBe('hello from the guest\n')
  expect(await cli('list')).toContain(id)
  await expectPassedOn(id)
  await expectCopied(id)
  const created = JSON.parse(await cli('create', '--tier', 'small', '--json')) as { id: string }
  expect(await state('destroy', created.id)).toBe('succeeded')
  desktops.giveBack(desktop)
})

async function expectPassedOn(id: string): Promise<void> {
  const exec = (words: string[], stdin?: string | Buffer) => typed(instance, ['exec', ...words], stdin)
  const input = 'lines\n\0 and ünï 🐹'.repeat(20_000)
  const [ended, read, bytes, late] = await Promise.all([
    exec([id, '--', 'sh', '-c', 'echo out; echo err >&2; exit 7']),
    exec(['-i', id, '--', 'md5sum'], input),
    exec(['-i', id, '--', 'md5sum'], Buffer.of(0x66, 0xff)),
    exec(['--timeout-secs', '1', id, '--', 'sleep', '60']),
  ])
  expect(ended).toEqual({ code: 7, stdout: 'out\n', stderr: 'err\n' })
  expect(read).toEqual({ code: 0, stdout: `${md5(Buffer.from(input))}  -\n`, stderr: '' })
  expect(bytes).toEqual({ code: 0, stdout: `${md5(Buffer.of(0x66, 0xff))}  -\n`, stderr: '' })
  expect(late).toMatchObject({
    code: 125,
    stdout: '',
    stderr: expect.stringContaining('the command ran longer than 1 s and was ended'),
  })
}

async function expectCopied(id: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-copied-'))
  const [up, down, none] = ['up', 'down', 'none'].map((name) => join(folder, name)) as [string, string, string]
  const bytes = randomBytes(4 * 1024 * 1024)
  writeFileSync(up, bytes)
  expect(await typed(instance, ['cp', up, `${id}:/srv/a b/`])).toMatchObject({ code: 0, stderr: '' })
  const [copied, hash, missing] = await Promise.all([
    typed(instance, ['cp', `${id}:/srv/a b/up`, down]),
    typed(instance, ['exec', id, '--', 'md5sum', '/srv/a b/up']),
    typed(instance, ['cp', '--json', `${id}:/srv/none`, none]),
  ])
  expect(copied).toMatchObject({ code: 0, stderr: '' })
  expect([md5(readFileSync(down)), hash.stdout.slice(0, 32)]).toEqual([md5(bytes), md5(bytes)])
  expect([missing.code, missing.stderr]).toEqual([3, expect.stringContaining('file_not_found')])
  expect(readdirSync(folder).sort()).toEqual(['down', 'up'])
  rmSync(folder, { recursive: true })
}

test('Ctrl-C hibernates what is awake and leaves nothing running; the next start goes on with the same desktops', async () => {
  const desktop = await desktops.take()
  const before = await leaveWitness(desktop, memoryMiB)
  await instance.down()
  expect(instance.log).toContain('Hibernating 1 desktop')
  expect(existsSync(join(instance.dataDir, 'local.json'))).toBe(false)
  expect(processesNaming(instance.dataDir)).toEqual([])
  await instance.up()
  const again = await Desktop.connect(desktop.id, { client: instance.client })
  expect(again.state).toBe('hibernated')
  expect((await again.wake()).result?.resumedFrom).toBe('memory')
  await expectKept(again, before)
  await again.destroy()
  expect(await lookAt(again).catch((error: Error) => error.name)).toMatch(/Conflict/)
})

/** Command lines of processes that were started for the folder. */
function processesNaming(folder: string): string[] {
  return execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(folder) && !line.startsWith('ps '))
}
