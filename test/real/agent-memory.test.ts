import { cpSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { Telemetry } from '@dormouse/agent/telemetry/telemetry.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { type Fence, newId } from '@dormouse/contract'
import { createLog, type Span, type SpanStart, withSpan } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guestSpec, Stage } from './parts/agent-stage.ts'
import { HandedOn } from './parts/handed-on.ts'
import { KeptDesktop } from './parts/kept-desktop.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const memoryMiB = long ? 64 : 16

let stage: Stage
let bench: Bench<LibvirtDriver>
const desktops = new HandedOn(() => KeptDesktop.boot(bench, memoryMiB))

const spanNamed = (traceparent: string): Span => ({ traceparent, end: () => undefined })
const spans: SpanStart[] = []
const tracing = {
  start(span: SpanStart) {
    spans.push(span)
    return spanNamed('of libvirt')
  },
  close: async () => undefined,
}

beforeAll(async () => {
  stage = await Stage.start()
  const telemetry = new Telemetry(createLog({ name: 'memory', level: 'silent' }), tracing)
  bench = await stage.bench('memory', { observeCall: telemetry.libvirtCall })
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const images = (id: string) => readdirSync(join(bench.memoryFolder, id)).filter((name) => name.endsWith('.save'))

// At length only: `main-job` shows the same over the API, and each test below keeps the memory, too.
test.runIf(long)(
  'memory, boot id and counter survive hibernations, and the clock is right after each wake',
  async () => {
    const desktop = await desktops.take()
    const { id } = desktop
    for (const _ of long ? [1, 2] : [1]) {
      const hibernated = withSpan(spanNamed('of the command'), () => bench.hibernated(desktop.nextTurn()))
      const { memoryBytes } = await hibernated
      expect(memoryBytes).toBeGreaterThan(memoryMiB * 1024 * 1024)
      expect(await bench.observe(id)).toMatchObject({ domain: 'absent', memory: 'complete', disk: true })
      await desktop.wake()
      expect(await bench.clockError(id)).toBeLessThan(1)
      await desktop.expectKept()
      await bench.tidy(desktop.fence)
      expect(images(id)).toEqual([])
    }
    // A traced command has a span for each call to libvirt; what runs by itself has none.
    expect(spans).toContainEqual({ name: 'libvirt domainSaveFlags', kind: 'client', parent: 'of the command' })
    expect(spans.every(({ parent }) => parent === 'of the command')).toBe(true)
    desktops.giveBack(desktop)
  },
)

// Guarantee: on either side of the mark memory and disk stay as they belong together; the old image never meets a newer disk.
// At length only: the same code does it in the simulated stack, and `test/crash` kills there.
for (const how of ['dies', 'fails'] as const) {
  test.runIf(long).each(['wake.before-mark', 'wake.after-mark', 'wake.after-resume'])(
    `a wake whose agent ${how} at %s keeps memory and disk whole`,
    async (name) => {
      const desktop = await desktops.take()
      const { id } = desktop
      await bench.hibernated(desktop.nextTurn())
      const fence = desktop.nextLife()
      const wake = () => bench.awake(fence, 'require', 'require', guestSpec)
      if (how === 'dies') await bench.crashAt(name, wake)
      else {
        bench.failpoints.set(name, 'throw')
        await expect(wake()).rejects.toThrow()
        bench.failpoints.set(name, undefined)
      }
      expect(await bench.asleep(fence)).toMatchObject({ state: 'hibernated', memoryLost: false })
      expect(await stage.domains(bench)).toEqual([])
      expect(images(id)).toHaveLength(1)
      await desktop.wake()
      await desktop.expectKept()
      await bench.tidy(desktop.fence)
      await bench.hibernated(desktop.nextTurn())
      await stage.checkDisk(bench, id)
      await desktop.wake()
      await bench.tidy(desktop.fence)
      desktops.giveBack(desktop)
    },
  )
}

// Guarantee: a boot that was to have a larger disk and fails costs nothing: the memory that was saved before goes on with that disk.
test('a disk grows for a boot, and its guest sees that; a memory that was saved with the smaller one can still be used', async () => {
  const desktop = await desktops.take()
  const { id } = desktop
  const larger = { ...guestSpec, memoryMiB: 320 }
  const boot = (fence: Fence) =>
    bench.ask('desktop.ensureAwake', {
      ...{ fence, spec: larger, nextDiskGiB: 3 },
      source: { memory: 'discard', disk: 'require' },
    })
  await bench.hibernated(desktop.nextTurn())
  const failed = desktop.nextLife()
  bench.failpoints.set('wake.after-grow', 'throw')
  await expect(boot(failed)).rejects.toThrow()
  bench.failpoints.set('wake.after-grow', undefined)
  expect(await bench.asleep(failed)).toMatchObject({ state: 'hibernated', size: { memoryMiB: 256, diskGiB: 3 } })
  await desktop.wake()
  await desktop.expectKept()
  await bench.hibernated(desktop.nextTurn())
  await stage.checkDisk(bench, id)
  expect(await boot(desktop.nextLife())).toMatchObject({ path: 'boot', size: { memoryMiB: 320, diskGiB: 3 } })
  expect(await bench.run(id, 'cat /sys/block/vda/size; cat /root/note')).toBe(`${(3 * 1024 ** 3) / 512}\nkept`)
  const mibOf = async (command: string) => Number(await bench.run(id, command))
  await expect.poll(() => mibOf("df -m / | awk 'END { print $2 }'"), { timeout: 60_000 }).toBeGreaterThan(2_500)
  expect(await mibOf("awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo")).toBeGreaterThan(256)
  await bench.destroyed(desktop.nextTurn())
})

test('a truncated image fails the wake with a text for the customer; nothing is deleted, and the disk can be booted on request', async () => {
  const desktop = await desktops.take()
  const { id } = desktop
  await bench.hibernated(desktop.nextTurn())
  const [image] = images(id)
  truncateSync(join(bench.memoryFolder, id, image!), 20_000_000)
  const failed = desktop.nextLife()
  await expect(bench.awake(failed, 'require', 'require', guestSpec)).rejects.toMatchObject({
    code: 'memory_image_damaged',
    detail: expect.stringContaining('discard_memory'),
  })
  expect(await bench.asleep(failed)).toMatchObject({ state: 'hibernated', memoryLost: false })
  expect(images(id)).toEqual([image])
  expect(await stage.domains(bench)).toEqual([])
  const woken = await bench.awake(desktop.nextLife(), 'discard', 'require', guestSpec)
  expect(woken).toMatchObject({ resumedFrom: 'disk', ready: true, path: 'boot' })
  expect(await bench.run(id, 'cat /root/note')).toBe('kept')
  const { generation, turn } = desktop.fence
  const orders = [{ desktopId: id, seen: { generation, turn }, order: 'stop' as const }]
  await bench.ask('host.rejoin', { epoch: 1, orders })
  await stage.checkDisk(bench, id)
  await bench.destroyed(desktop.nextTurn())
  expect(await stage.domains(bench)).toEqual([])
  expect(await bench.ask('host.inventory', { known: [] })).toMatchObject({ items: [] })
})

/** The mini image under that name, with a command that says when it is ready. */
function imageReady(imagesDir: string, name: string, command: string): void {
  const folder = join(imagesDir, name)
  cpSync(stage.miniImage, folder, { recursive: true })
  const file = join(folder, 'manifest.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8'))
  writeFileSync(file, JSON.stringify({ ...manifest, ready: { command, try_timeout_secs: 20 } }))
}

// One boot that must take its time, and one that waits for its deadline: `ready.test.ts` holds the same without guests.
test.runIf(long)(
  'a boot waits until its image’s ready command succeeds, at most until the deadline; a wake from memory runs none',
  async () => {
    const imagesDir = join(stage.libvirtd.shortDir, 'images-ready')
    imageReady(imagesDir, 'late', 'echo >>/run/tries; [ "$(wc -l </run/tries)" -gt 3 ]')
    imageReady(imagesDir, 'never', 'false')
    const stack = await stage.bench('ready', { imagesDir })
    const wake = (id: string, turn: number, image: string, deadlineMs = 300_000) => {
      const of = { ...guestSpec, imageVersion: image }
      return stack.awake(fenceOf(id, turn, 2 * turn - 1, { deadlineMs }), 'allow', 'make', of)
    }
    const [late, never] = [newId(), newId()]
    const began = performance.now()
    expect(await wake(late, 1, 'late')).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
    const tookMs = performance.now() - began
    expect(await stack.run(late, 'wc -l </run/tries')).toBe('4')
    await stack.hibernated(fenceOf(late, 1, 2))
    expect(await wake(late, 2, 'late')).toMatchObject({ resumedFrom: 'memory', ready: true, path: 'restore' })
    expect(await stack.run(late, 'wc -l </run/tries')).toBe('4')
    await stack.destroyed(fenceOf(late, 2, 4))
    expect(await wake(never, 1, 'never', Math.round(3 * tookMs))).toMatchObject({ path: 'boot', ready: false })
    expect(await stack.run(never, 'echo it answers')).toBe('it answers')
    await stack.destroyed(fenceOf(never, 1, 2))
    await stack.driver.close()
  },
)
