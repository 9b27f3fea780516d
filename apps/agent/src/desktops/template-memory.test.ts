// Guarantee: a template takes nothing from anybody. While one is made, its guest counts as a desktop, and ends as soon as desktops
// need its memory. What is made ahead of need removes nothing else.
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DesktopSpec, imageFolderName, newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { SimulatedDriver } from '../driver/simulated/simulated.ts'
import { Bench, fenceOf, spec, until } from '../testing/bench.ts'
import { ImageServer } from '../testing/image-server.ts'
import { TestMove } from '../testing/move.ts'
import { expectNoTemplate, made, path } from '../testing/template-making.ts'

const start = () => Bench.start({ templatesMiB: 1_000 })

test('no template is made while memory is scarce, however often one is wanted; later one is', async () => {
  const memory = { totalMiB: 1_000, availableMiB: 110 }
  await using bench = await Bench.start({
    templatesMiB: 1_000,
    warm: { maxMiB: 0, maxAgeMs: 1, hostMemory: () => memory },
  })
  for (let n = 0; n < 5; n++) {
    expect(await path(bench)).toBe('boot')
    await bench.parts.templates.settled()
    await expectNoTemplate(bench)
  }
  memory.availableMiB = 1_000
  await made(bench)
})

const size = { vcpus: spec.vcpus, memoryMiB: spec.memoryMiB, diskGiB: spec.diskGiB }

/** The host has the image, and is asked to make a template of it ahead of need. */
async function askedAhead(bench: Bench, server: ImageServer): Promise<DesktopSpec> {
  const ref = server.ref()
  const ask = () => bench.ask('image.fetch', { ...ref, template: size })
  await ask()
  await until(() => bench.driver.images.find(imageFolderName(ref)))
  await ask()
  await bench.parts.templates.settled()
  return { ...spec, imageVersion: imageFolderName(ref) }
}

test('where a template is made ahead of need, the first desktop of the image begins with it', async () => {
  await using server = await ImageServer.start(1_000)
  await using bench = await start()
  const of = await askedAhead(bench, server)
  expect(bench.parts.templates.facts).toEqual([{ image: 'mini@1', memoryMiB: 16, vcpus: 1, mib: 1 }])
  await askedAhead(bench, server)
  expect(bench.driver.faults.counts.bootTemplate).toBe(1)
  expect(await path(bench, newId(), of)).toBe('template')
})

test('a host without space for templates, or with an old control plane, makes none ahead of need', async () => {
  await using server = await ImageServer.start(1_000)
  await using without = await Bench.start()
  await askedAhead(without, server)
  await expectNoTemplate(without)
  await using bench = await start()
  await bench.ask('image.fetch', server.ref())
  await until(() => bench.driver.images.find('mini@1'))
  await bench.ask('image.fetch', server.ref())
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})

/** A host on which desktops can be given 40 MiB, and on which as much is available as `memory` says. */
async function small() {
  const memory = { totalMiB: 1_000, availableMiB: 1_000 }
  const folder = await mkdtemp(join(tmpdir(), 'dormouse-agent-'))
  const capacity = { memoryMiB: 40, diskGiB: 100 }
  const makeDriver = () => new SimulatedDriver({ folder: join(folder, 'simulated'), capacity })
  const warm = { maxMiB: 0, maxAgeMs: 1, hostMemory: () => memory }
  return { memory, bench: await Bench.over({ folder, makeDriver, warm, templatesMiB: 1_000 }) }
}

/** A template is being made when this returns, and has come to that step; the returned function lets it go on. */
async function makingAt(bench: Bench, step: string): Promise<() => void> {
  const [reached, mayGoOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  bench.failpoints.set(step, async () => {
    reached.resolve()
    await mayGoOn.promise
  })
  const id = newId()
  expect(await path(bench, id)).toBe('boot')
  await reached.promise
  bench.failpoints.set(step, undefined)
  await bench.destroyed(fenceOf(id, 1, 2))
  expect(bench.driver.templates.running()).toHaveLength(1)
  return mayGoOn.resolve
}

const makingSteps = ['template.after-boot', 'template.after-seal']

test.each(makingSteps)(
  'a wake that needs the memory of a template that is %s ends it, and a later one is made',
  async (step) => {
    const { bench, memory } = await small()
    await using _ = bench
    for (let n = 0; n < 4; n++) {
      memory.availableMiB = 1_000
      const goOn = await makingAt(bench, step)
      memory.availableMiB = 110
      const id = newId()
      expect(await path(bench, id)).toBe('boot')
      expect(bench.driver.templates.running()).toEqual([])
      goOn()
      await bench.parts.templates.settled()
      await expectNoTemplate(bench)
      await bench.destroyed(fenceOf(id, 1, 2))
      await bench.parts.templates.check()
    }
    memory.availableMiB = 1_000
    await made(bench)
  },
)

test('a template’s guest counts as a desktop: with a desktop that is placed beside it, it ends', async () => {
  const { bench } = await small()
  await using _ = bench
  const goOn = await makingAt(bench, 'template.after-boot')
  const [first, second] = [newId(), newId()]
  await path(bench, first)
  await bench.parts.templates.giveWay()
  expect(bench.driver.templates.running()).toHaveLength(1)
  await path(bench, second)
  expect(bench.driver.templates.running()).toEqual([])
  goOn()
  await bench.parts.templates.settled()
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})

test('a template that is being saved ends where desktops come to need its memory', async () => {
  const { bench, memory } = await small()
  await using _ = bench
  const goOn = bench.driver.faults.hang('saveTemplate')
  expect(await path(bench)).toBe('boot')
  await until(() => bench.driver.faults.counts.saveTemplate)
  await bench.parts.templates.giveWay()
  expect(bench.driver.templates.running()).toHaveLength(1)
  memory.availableMiB = 90
  await bench.parts.templates.giveWay()
  expect(bench.driver.templates.running()).toEqual([])
  goOn()
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})

test('a template whose guest was saved and ended already is finished, however little memory there is', async () => {
  const { bench, memory } = await small()
  await using _ = bench
  bench.failpoints.set('template.after-save', async () => {
    memory.availableMiB = 110
    expect(await path(bench)).toBe('boot')
  })
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  expect(bench.parts.templates.facts).toHaveLength(1)
})

test('a desktop that arrives awake ends the template that is in its way', async () => {
  await using from = await Bench.start()
  const id = newId()
  await path(from, id)
  const { bench: to, memory } = await small()
  await using _ = to
  const goOn = await makingAt(to, 'template.after-boot')
  memory.availableMiB = 110
  const move = new TestMove({ from, to, desktopId: id, kind: 'live', generation: 1, turn: 2 })
  await move.begin()
  await move.prepare()
  expect(to.driver.templates.running()).toEqual([])
  goOn()
  await move.send()
  await move.arrive()
  expect(await move.settle()).toBe('awake')
  await move.release()
})

test('a wake does not fail where the guest of a template cannot be ended', async () => {
  const { bench, memory } = await small()
  await using _ = bench
  const goOn = await makingAt(bench, 'template.after-boot')
  const { templates } = bench.driver
  const end = templates.end.bind(templates)
  templates.end = () => Promise.reject(new Error('libvirt says no'))
  memory.availableMiB = 110
  expect(await path(bench)).toBe('boot')
  templates.end = end
  goOn()
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})

test('what is made ahead of need removes no other template', async () => {
  await using server = await ImageServer.start(1_000)
  await using bench = await Bench.start({ templatesMiB: spec.memoryMiB })
  await made(bench)
  const of = await askedAhead(bench, server)
  expect(bench.parts.templates.facts).toMatchObject([{ image: 'mini' }])
  expect(await path(bench)).toBe('template')
  expect(await path(bench, newId(), of)).toBe('boot')
  await bench.parts.templates.settled()
  expect(await path(bench, newId(), of)).toBe('template')
})

test('what is made ahead of need ends no warm copy for its memory', async () => {
  await using server = await ImageServer.start(1_000)
  const memory = { totalMiB: 1_000, availableMiB: 1_000 }
  const hostMemory = () => memory
  await using bench = await Bench.start({
    templatesMiB: 1_000,
    warm: { maxMiB: 1_000, maxAgeMs: 3_600_000, hostMemory },
  })
  await made(bench)
  const id = newId()
  await path(bench, id)
  await bench.hibernated(fenceOf(id, 1, 2))
  memory.availableMiB = 110
  await askedAhead(bench, server)
  expect(bench.parts.templates.facts).toHaveLength(1)
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({ path: 'warm' })
})
