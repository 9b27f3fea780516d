// Guarantee: fifty warm copies on one host give their memory back when something else needs it. Desktops that are awake never pay, and
// those whose copies have ended lose nothing. At full length only.
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { guestSpec, leaveWitness, lookAt, Stage } from './parts/agent-stage.ts'
import { MemoryHog } from './parts/memory-hog.ts'

const many = 50
const atOnce = 4
/** Less than the share below which copies are ended. */
const leftShare = 0.06

let stage: Stage
let bench: Bench<LibvirtDriver>
beforeAll(async () => {
  stage = await Stage.start()
  const settings = { socketsDir: join(stage.libvirtd.shortDir, 'sockets') }
  bench = await stage.bench('pressure', settings, undefined, undefined, { maxMiB: 50_000, maxAgeMs: 3_600_000 }, 4_000)
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const wake = async (id: string, generation: number, turn: number) =>
  (await bench.awake(fenceOf(id, generation, turn), 'allow', generation === 1 ? 'make' : 'require', guestSpec)).path

/** Several at a time: each takes a processor. */
async function forEach(ids: readonly string[], work: (id: string) => Promise<unknown>): Promise<void> {
  const left = [...ids]
  const next = async () => {
    for (let id = left.shift(); id; id = left.shift()) await work(id)
  }
  await Promise.all(Array.from({ length: atOnce }, next))
}

test('under memory pressure copies end, the desktop that is awake goes on, and the others wake with what they had', async () => {
  const awake = newId()
  expect(await wake(awake, 1, 1)).toBe('boot')
  const seen = await leaveWitness(bench, awake, 32)
  await bench.parts.templates.settled()

  const ids = Array.from({ length: many }, () => newId())
  await forEach(ids, async (id) => {
    expect(await wake(id, 1, 1)).toBe('template')
    await bench.run(id, `echo ${id} >/run/kept`)
    await bench.hibernated(fenceOf(id, 1, 2))
  })
  expect(bench.parts.warm.facts.copies).toBe(many)
  {
    await using _hog = await MemoryHog.start(leftShare)
    await waitFor('copies to end', async () => {
      await bench.parts.warm.check()
      return bench.parts.warm.facts.copies === 0
    })
    const now = await lookAt(bench, awake)
    expect(now).toMatchObject({ bootId: seen.bootId, memoryHash: seen.memoryHash })
    expect(now.counter).toBeGreaterThan(seen.counter)
  }
  const some = ids.filter((_, n) => n % 10 === 0)
  await forEach(some, async (id) => {
    expect(await wake(id, 2, 3)).toBe('restore')
    expect(await bench.run(id, 'cat /run/kept')).toBe(id)
  })
  await forEach([awake, ...ids], (id) => bench.destroyed(fenceOf(id, 9, 9)))
})
