// Guarantee: a host that gives a desktop up keeps nothing of it, refuses that turn from then on, and takes it again in a later one.
import { newId } from '@dormouse/contract'
import { describe, expect, test } from 'vitest'
import { Bench, fenceOf } from '../testing/bench.ts'
import { TestMove } from '../testing/move.ts'

test('what a failed wake has left is removed, also by an agent that died meanwhile, and the desktop may come again', async () => {
  await using bench = await Bench.start()
  const desktopId = newId()
  const [wake, later] = [fenceOf(desktopId, 1, 1), fenceOf(desktopId, 1, 2)]
  await bench.awake(wake)
  await bench.crashAt('absent.after-kill', () => bench.ask('desktop.ensureAbsent', { fence: wake }))
  for (let twice = 0; twice < 2; twice++) await bench.ask('desktop.ensureAbsent', { fence: wake })
  expect(await bench.driver.hasDisk(desktopId)).toBe(false)
  expect((await bench.ask('host.inventory', { known: [] })).items).toEqual([])
  await expect(bench.awake(wake)).rejects.toThrow(/undone/)
  expect((await bench.awake(later)).resumedFrom).toBe('image')
  expect((await bench.ask('host.inventory', { known: [] })).items).toMatchObject([{ desktopId, domain: 'running' }])
  await expect(bench.ask('desktop.ensureAbsent', { fence: wake })).rejects.toThrow(/already accepted/)
  expect(await bench.driver.hasDisk(desktopId)).toBe(true)
})

/** A desktop whose first wake by a template has died on `failed` at that step. It was woken on `other` instead, with something of its owner's. */
async function wokenElsewhere(failed: Bench, other: Bench, step: string): Promise<string> {
  await failed.awake(fenceOf(newId(), 1, 1))
  await failed.parts.templates.settled()
  const desktopId = newId()
  const wake = fenceOf(desktopId, 1, 1)
  await failed.crashAt(step, () => failed.awake(wake))
  await other.awake(wake)
  await other.run(desktopId, 'echo memory > /run/note; echo disk > /root/note')
  await failed.ask('desktop.ensureAbsent', { fence: wake })
  return desktopId
}

const steps = ['before-copy', 'after-copy', 'before-resume', 'after-resume', 'after-identity', 'after-done']

describe.each(['live', 'cold'] as const)('%s', (kind) => {
  test.each(steps)('where a first wake has died at %s, the desktop may come with its work', async (step) => {
    const installationId = newId()
    await using failed = await Bench.start({ installationId, templatesMiB: 1_000 })
    await using other = await Bench.start({ installationId })
    const desktopId = await wokenElsewhere(failed, other, `first-wake.${step}`)
    if (kind === 'cold') await other.hibernated(fenceOf(desktopId, 1, 2))
    await new TestMove({ from: other, to: failed, desktopId, kind, generation: 1, turn: 3 }).whole()
    if (kind === 'cold') await failed.awake(fenceOf(desktopId, 2, 5), 'require', 'require')
    expect(await failed.run(desktopId, 'cat /run/note /root/note')).toBe('memory\ndisk')
    await failed.hibernated(fenceOf(desktopId, 2, 6))
    await failed.awake(fenceOf(desktopId, 3, 7), 'require', 'require')
    expect(await failed.run(desktopId, 'cat /run/note /root/note')).toBe('memory\ndisk')
  })

  /** What the release before has left of a first wake on the host that the desktop has come to. */
  test('an old journal does not empty the disk of a desktop that has come', async () => {
    const installationId = newId()
    await using failed = await Bench.start({ installationId, templatesMiB: 1_000 })
    await using other = await Bench.start({ installationId })
    const desktopId = await wokenElsewhere(failed, other, 'first-wake.after-copy')
    if (kind === 'cold') await other.hibernated(fenceOf(desktopId, 1, 2))
    const move = new TestMove({ from: other, to: failed, desktopId, kind, generation: 1, turn: 3 })
    await move.whole()
    await failed.parts.journal.note(move.decision, { identity: 'template' })
    await failed.crash()
    if (kind === 'cold') await failed.awake(fenceOf(desktopId, 2, 5), 'require', 'require')
    expect(await failed.run(desktopId, 'cat /run/note /root/note')).toBe('memory\ndisk')
  })
})

test.each(steps)('where a first wake has died at %s, the desktop may be woken for the first time', async (step) => {
  await using failed = await Bench.start({ templatesMiB: 1_000 })
  await using other = await Bench.start()
  const desktopId = await wokenElsewhere(failed, other, `first-wake.${step}`)
  await failed.parts.templates.removeWhile(async () => true)
  expect(await failed.awake(fenceOf(desktopId, 2, 2))).toMatchObject({ resumedFrom: 'image', path: 'boot' })
  expect(failed.parts.journal.read(desktopId)).toMatchObject({ identity: 'own', furnished: true })
  await failed.run(desktopId, 'echo disk > /root/note')
  await failed.hibernated(fenceOf(desktopId, 2, 3))
  await failed.awake(fenceOf(desktopId, 3, 4), 'require', 'require')
  expect(await failed.run(desktopId, 'cat /root/note')).toBe('disk')
})
