// Guarantee: what a desktop has used in the last 24 hours is kept in a file of bounded size, and outlives its agent; what was not
// measured is not made up.
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { GuestUsage } from '../driver/driver.ts'
import { ringBytes } from './figure-ring.ts'
import { Figures } from './figures.ts'

const id = newId()
const begin = 1_767_225_600

async function testbed() {
  const folder = await mkdtempDisposable(join(tmpdir(), 'dormouse-figures-'))
  const clock = { secs: begin, monotonicSecs: 5 }
  const clocks = { unixMs: () => clock.secs * 1_000, monotonicMs: () => clock.monotonicSecs * 1_000 }
  const open = () => new Figures(join(folder.path, 'figures'), clocks)
  const pass = (secs: number) => {
    clock.secs += secs
    clock.monotonicSecs += secs
  }
  const file = join(folder.path, 'figures', `${id}.ring`)
  return {
    folder,
    figures: open(),
    open,
    clock,
    pass,
    file,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** What it has used after so many seconds at these rates. */
const usedAfter = (secs: number, more: Partial<GuestUsage> = {}): ReadonlyMap<string, GuestUsage> => {
  const counted = {
    ranMs: secs * 500,
    readBytes: secs * 10,
    writtenBytes: secs * 20,
    receivedBytes: secs * 30,
    sentBytes: 0,
  }
  return new Map([[id, { processorMs: 0, networkBytes: 0, ...counted, memoryMiB: 512, memoryUsedMiB: secs, ...more }]])
}

const rates = {
  cpu_percent: 50,
  memory_mib: 512,
  disk_read_bytes_per_sec: 10,
  disk_write_bytes_per_sec: 20,
  network_received_bytes_per_sec: 30,
  network_sent_bytes_per_sec: 0,
}

test('points are averages of their steps, memory the highest; an agent that starts again goes on', async () => {
  await using bed = await testbed()
  for (let secs = 0; secs <= 60; secs += 10, bed.pass(10)) {
    expect(bed.figures.isDue()).toBe(true)
    await bed.figures.note(usedAfter(secs))
    expect(bed.figures.isDue()).toBe(false)
  }
  const expected = [20, 50, 60].map((used, index) => ({ at: begin + index * 30, ...rates, memory_used_mib: used }))
  for (const figures of [bed.figures, bed.open()]) {
    expect(await figures.points(id, { start: begin, end: begin + 90, step: 30 })).toEqual(expected)
    expect(await figures.points(id, null)).toEqual([{ at: begin + 60, ...rates, memory_used_mib: 60 }])
  }
  // The first look of a new agent gives no figure, as it has nothing to compare with.
  const next = bed.open()
  await next.note(usedAfter(70))
  expect((await next.points(id, null))[0]!.at).toBe(begin + 60)
})

test('what is not known is null, and what is no difference of one process is no figure', async () => {
  await using bed = await testbed()
  const notes: [secs: number, usage: ReadonlyMap<string, GuestUsage>][] = [
    [0, usedAfter(0)],
    [10, usedAfter(10, { readBytes: undefined, memoryUsedMiB: undefined })],
    // Another process, as after a sleep.
    [10, usedAfter(1)],
    // It was away.
    [10, new Map()],
    [10, usedAfter(20)],
    // The host stood still.
    [300, usedAfter(320)],
  ]
  for (const [secs, used] of notes) {
    bed.pass(secs)
    await bed.figures.note(used)
  }
  const points = await bed.figures.points(id, { start: begin, end: begin + 1_000, step: 10 })
  expect(points).toEqual([{ at: begin + 10, ...rates, disk_read_bytes_per_sec: null, memory_used_mib: null }])
})

test('the file never grows beyond a day, and a day later it has the new day alone', async () => {
  await using bed = await testbed()
  const note = async (secs: number) => {
    await bed.figures.note(usedAfter(secs))
    bed.pass(10)
  }
  for (let secs = 0; secs < 100; secs += 10) await note(secs)
  bed.pass(86_400 - 50)
  for (let secs = 100; secs < 150; secs += 10) await note(secs)
  expect(statSync(bed.file).size).toBeLessThanOrEqual(ringBytes)
  const points = await bed.figures.points(id, { start: begin, end: bed.clock.secs, step: 10 })
  const late = points.filter(({ at }) => at > begin + 1_000)
  expect([late.length, points.every(({ at }) => at >= bed.clock.secs - 86_400)]).toEqual([4, true])
  // The clock is set back: what is in its future is not shown, and what it has replaced is gone.
  bed.clock.secs = begin + 500
  expect(await bed.figures.points(id, null)).toMatchObject([{ at: begin + 50 }])
})

test('no damage to the file makes a figure that was not measured', async () => {
  await using bed = await testbed()
  for (let secs = 0; secs < 50; secs += 10, bed.pass(10)) await bed.figures.note(usedAfter(secs))
  const whole = readFileSync(bed.file)
  const span = { start: begin, end: begin + 100, step: 10 }
  const measured = await bed.figures.points(id, span)
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length), fc.nat(whole.length - 1), fc.nat(255), async (cut, at, byte) => {
      const damaged = Buffer.from(whole)
      damaged[at] = byte
      writeFileSync(bed.file, damaged)
      truncateSync(bed.file, cut)
      for (const point of await bed.figures.points(id, span)) expect(measured).toContainEqual(point)
    }),
    { numRuns: 100 },
  )
})

test('a desktop that has gone leaves nothing', async () => {
  await using bed = await testbed()
  const other = newId()
  for (const secs of [0, 10]) {
    const used = usedAfter(secs).get(id)!
    await bed.figures.note(new Map([id, other].map((each) => [each, used])))
    bed.pass(10)
  }
  const names = () => readdirSync(join(bed.folder.path, 'figures'))
  expect(names()).toHaveLength(2)
  await bed.figures.remove(id)
  expect([names(), await bed.figures.points(id, null)]).toEqual([[`${other}.ring`], []])
  await bed.figures.prune(() => false)
  expect(names()).toEqual([])
})
