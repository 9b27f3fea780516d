// Guarantee: a host keeps the templates that it may have and that are whole, and nothing else of them; none goes while a first wake
// uses it.
import { appendFile, chmod, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { lowWaterBytes } from '../images/disk-space.ts'
import { Bench, fenceOf, spec } from '../testing/bench.ts'
import { expectNoTemplate, foldersOf, made, path } from '../testing/template-making.ts'

const start = () => Bench.start({ templatesMiB: 1_000 })

test('an agent that is to make none ends and removes what one before it has left', async () => {
  await using bench = await start()
  await made(bench)
  bench.templatesMiB = 0
  await bench.crashAt('template.after-boot', async () => {
    expect(await path(bench, newId(), { ...spec, memoryMiB: 32 })).toBe('boot')
    await bench.parts.templates.settled()
  })
  await expectNoTemplate(bench)
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})

test.each(['memory', 'manifest.json'])(
  'where %s of a template is damaged, the agent notices when it starts, and makes another',
  async (file) => {
    await using bench = await start()
    await made(bench)
    const [key] = await foldersOf(bench)
    const damaged = join(bench.folder, 'templates', key!, file)
    await chmod(damaged, 0o600)
    await appendFile(damaged, 'x')
    await bench.crash()
    await expectNoTemplate(bench)
    await made(bench)
  },
)

test('a template is replaced only when no first wake is in the middle of it', async () => {
  await using bench = await start()
  await made(bench, { ...spec, diskGiB: 2 })
  const [key] = await foldersOf(bench)
  const replaces = Promise.withResolvers<void>()
  const copied = Promise.withResolvers<void>()
  bench.failpoints.set('first-wake.after-copy', async () => {
    copied.resolve()
    await replaces.promise
    // If nothing held it back, the folder would be another one by now.
    for (let n = 0; n < 200; n++) await foldersOf(bench)
  })
  const { templates } = bench.driver
  const begin = templates.start.bind(templates)
  const found: unknown[] = []
  templates.start = async (template, ...of) => {
    const manifest = JSON.parse(await readFile(join(template.path, 'manifest.json'), 'utf8'))
    found.push(manifest.diskGiB)
    await begin(template, ...of)
  }
  const waking = path(bench, newId(), { ...spec, diskGiB: 2 })
  await copied.promise
  bench.failpoints.set('first-wake.after-copy', undefined)
  bench.failpoints.set('template.before-rename', () => replaces.resolve())
  expect(await path(bench)).toBe('boot')
  expect(await waking).toBe('template')
  expect(found).toEqual([2])
  await bench.parts.templates.settled()
  expect(await foldersOf(bench)).toEqual([key])
  expect(await path(bench)).toBe('template')
  expect(found).toEqual([2, 1])
})

test('templates give way before a desktop cannot sleep for want of space', async () => {
  await using bench = await start()
  await made(bench)
  const [id, tooLarge] = [newId(), { ...spec, memoryMiB: 2 ** 40 }]
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', tooLarge)
  await expect(bench.hibernated(fenceOf(id, 1, 2))).rejects.toMatchObject({ code: 'host_disk_full' })
  await expectNoTemplate(bench)
})

test('templates on another disk do not give way', async () => {
  await using bench = await start()
  await made(bench)
  await bench.parts.templates.makeSpaceOn('/proc', async () => true)
  expect(bench.parts.templates.facts).toHaveLength(1)
  await bench.parts.templates.makeSpaceOn(bench.folder, async () => true)
  await expectNoTemplate(bench)
})

test('none is made that would be removed at once, because the disk is nearly full', async () => {
  await using bench = await start()
  await bench.parts.eviction.check()
  const low = await lowWaterBytes(bench.driver.images.fetchedDir)
  bench.driver.freeDiskBytes = async () => low - 1
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})
