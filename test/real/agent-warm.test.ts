// Guarantee: a warm copy of a real guest is a spare of its saved memory. However it is resumed or ended, the guest goes on
// with its memory on the disk that belongs to it.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { domainName } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, until } from '@dormouse/agent/testing/bench.ts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { run } from '../../scripts/testbed/processes.ts'
import { guestSpec, Stage } from './parts/agent-stage.ts'
import { KeptDesktop } from './parts/kept-desktop.ts'

const warm = { maxMiB: 2_000, maxAgeMs: 3_600_000 }

let stage: Stage
let bench: Bench<LibvirtDriver>
let desktop: KeptDesktop

beforeAll(async () => {
  stage = await Stage.start()
  bench = await stage.bench('warm', { socketsDir: socketsDir() }, undefined, undefined, warm)
  desktop = await KeptDesktop.boot(bench, 16)
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const state = async () => {
  const { domain, memory, warm = false } = await bench.observe(desktop.id)
  return { domain, memory, warm }
}
const asleep = { domain: 'absent', memory: 'complete' }
const diskPath = () => join(bench.folder, 'disks', `${desktop.id}.qcow2`)
const digest = () => createHash('sha256').update(readFileSync(diskPath())).digest('hex')
const named = () => domainName({ installationId: bench.installationId, desktopId: desktop.id })
const virsh = (...args: string[]) =>
  run('virsh', ['-q', '-c', `qemu+unix:///system?socket=${stage.libvirtd.socketPath}`, ...args])

/** In the namespace of its host. */
const qemuPid = () => readFileSync(`/proc/${stage.libvirtd.pid}/root/run/libvirt/qemu/${named()}.pid`, 'utf8').trim()
const oomScore = () => readFileSync(`/proc/${stage.libvirtd.pid}/root/proc/${qemuPid()}/oom_score_adj`, 'utf8').trim()

/** Awake, with the memory that is looked for afterwards. */
beforeEach(async () => {
  if ((await bench.driver.domain(desktop.id))?.state !== 'running')
    await bench.awake(desktop.nextLife(), 'require', 'require', guestSpec)
})

const hibernate = () => bench.hibernated(desktop.nextTurn())

test('ten sleeps in one process keep memory, boot, counter and clock', async () => {
  const pid = qemuPid()
  for (let n = 0; n < 10; n++) {
    await hibernate()
    expect(await state()).toEqual({ ...asleep, warm: true })
    await desktop.wake('warm')
    await bench.tidy(desktop.fence)
    expect(await bench.clockError(desktop.id)).toBeLessThan(1)
    await desktop.expectKept()
  }
  expect(qemuPid()).toBe(pid)
})

test('a command after a warm wake uses the connection from before, and one that was in flight ends with the sleep', async () => {
  /** The id of the SSH server's process for this connection. */
  const session = () => bench.run(desktop.id, 'echo $PPID')
  const before = await session()
  await hibernate()
  await desktop.wake('warm')
  expect(await session()).toBe(before)
  const inFlight = bench.run(desktop.id, 'touch /run/began; sleep 600', 700).catch((error: Error) => error)
  await until(async () => (await bench.run(desktop.id, 'ls /run/began || true')).includes('began'))
  await hibernate()
  expect(await inFlight).toMatchObject({ code: 'exec_interrupted' })
  await desktop.wake('warm')
  expect(await session()).not.toBe(before)
})

test('a warm guest uses no processor, is the first that the kernel ends, and its screen is closed', async () => {
  const screen = await bench.driver.screen(desktop.id)
  const closed = new Promise((resolve) => screen.once('close', () => resolve('closed')))
  await hibernate()
  expect(await closed).toBe('closed')
  const pid = qemuPid()
  expect(oomScore()).toBe('900')
  await desktop.wake('warm')
  expect(oomScore()).toBe('0')
  expect(qemuPid()).toBe(pid)
})

test('ending a copy changes nothing on its disk, and its image is restored', async () => {
  await hibernate()
  const before = digest()
  expect(await bench.parts.warm.dropAll()).toBe(1)
  expect(digest()).toBe(before)
  await run('qemu-img', ['check', diskPath()])
  expect(await state()).toEqual({ ...asleep, warm: false })
  await desktop.wake('restore')
  await desktop.expectKept()
})

test('what something else resumed is the memory, and its image is never restored', async () => {
  await hibernate()
  await virsh('resume', named())
  await until(async () => (await state()).memory === 'spent')
  await virsh('suspend', named())
  await until(async () => (await bench.driver.domain(desktop.id))?.state === 'paused')
  expect(await bench.parts.warm.dropAll()).toBe(0)
  expect(await bench.awake(desktop.nextLife(), 'require', 'require', guestSpec)).toMatchObject({
    resumedFrom: 'memory',
  })
  await desktop.expectKept()
})

test('one that ran while no agent looked is not ended as a copy', async () => {
  await hibernate()
  await bench.down()
  await virsh('resume', named())
  await virsh('suspend', named())
  await bench.up()
  expect(await bench.parts.warm.dropAll()).toBe(0)
  expect((await bench.driver.domain(desktop.id))?.state).toBe('paused')
  expect((await state()).memory).toBe('spent')
  expect(await bench.awake(desktop.nextLife(), 'require', 'require', guestSpec)).toMatchObject({
    resumedFrom: 'memory',
  })
  await desktop.expectKept()
})

const socketsDir = () => join(stage.libvirtd.shortDir, 'sockets')

/** A busy machine opens SSH late. Until then a command goes over the guest agent, which may be the one that is stopped. */
const signal = (name: 'STOP' | 'CONT', program: string) =>
  until(
    () =>
      bench.run(desktop.id, `killall -${name} ${program}`).then(
        () => true,
        () => false,
      ),
    60_000,
  )

test.each([
  ['qemu-ga', 'its program is told'],
  ['dormouse-guest', 'its agent sets the clock'],
])('where %s hangs in a guest, %s', async (hangs) => {
  await signal('STOP', hangs)
  await hibernate()
  await desktop.wake('warm')
  await signal('CONT', hangs)
  // What was sent to the program meanwhile is not done late.
  expect(await bench.clockError(desktop.id)).toBeLessThan(1)
  await desktop.expectKept()
})

test('a host that dies in the middle of its message leaves nothing of it, and the next one is told', async () => {
  const dying = connect(join(socketsDir(), `${desktop.id}.wake`))
  dying.write('\nHELLO\n')
  await once(dying, 'data')
  const cut = `BEGIN n1\nFILE 644 /etc/first eA==\nCLOCK 1\nFILE 644 /etc/second eA`
  await new Promise<void>((sent) => dying.write(cut, () => sent()))
  dying.destroy()
  const files = [{ path: '/etc/third', mode: 0o600, bytes: Buffer.from('x') }]
  await bench.parts.guests.tell(desktop.id, { files, hostName: 'told' })
  expect(await bench.run(desktop.id, 'ls /etc/first /etc/second 2>/dev/null; stat -c %a /etc/third; hostname')).toBe(
    '600\ntold',
  )
  expect(await bench.clockError(desktop.id)).toBeLessThan(1)
})

test('memory that the guest has freed is neither the host’s cost nor in its image, and each restore has an id of its own', async () => {
  const genid = async () => /<genid>(.*)<\/genid>/.exec(await virsh('dumpxml', named()))?.[1]
  const before = await genid()
  await bench.run(desktop.id, 'head -c 60000000 /dev/zero > /run/much')
  const used = (await bench.driver.residentMiB(desktop.id)) ?? 0
  await bench.run(desktop.id, 'rm /run/much')
  await until(async () => ((await bench.driver.residentMiB(desktop.id)) ?? used) < used - 30, 60_000)
  await hibernate()
  await desktop.wake('warm')
  expect(await genid()).toBe(before)
  await hibernate()
  await bench.parts.warm.dropAll()
  await desktop.wake('restore')
  expect(await genid()).toMatch(/^[0-9a-f-]{36}$/)
  expect(await genid()).not.toBe(before)
  await desktop.expectKept()
})

test('the disk of a desktop that slept and woke in all these ways is without a fault', async () => {
  await hibernate()
  await bench.parts.warm.dropAll()
  await stage.checkDisk(bench, desktop.id)
})
