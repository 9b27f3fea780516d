// Guarantee: what is made ahead of need, or where memory is scarce, takes nothing from anybody.
import { type DesktopSpec, imageFolderName, newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, spec, until } from '../testing/bench.ts'
import { ImageServer } from '../testing/image-server.ts'
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
    await bench.house.templates.settled()
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
  await bench.house.templates.settled()
  return { ...spec, imageVersion: imageFolderName(ref) }
}

test('where a template is made ahead of need, the first desktop of the image begins with it', async () => {
  await using server = await ImageServer.start(1_000)
  await using bench = await start()
  const of = await askedAhead(bench, server)
  expect(bench.house.templates.facts).toEqual([{ image: 'mini@1', memoryMiB: 16, vcpus: 1, mib: 1 }])
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
  await bench.house.templates.settled()
  await expectNoTemplate(bench)
})

test('what is made ahead of need removes no other template', async () => {
  await using server = await ImageServer.start(1_000)
  await using bench = await Bench.start({ templatesMiB: spec.memoryMiB })
  await made(bench)
  const of = await askedAhead(bench, server)
  expect(bench.house.templates.facts).toMatchObject([{ image: 'mini' }])
  expect(await path(bench)).toBe('template')
  expect(await path(bench, newId(), of)).toBe('boot')
  await bench.house.templates.settled()
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
  expect(bench.house.templates.facts).toHaveLength(1)
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({ path: 'warm' })
})
