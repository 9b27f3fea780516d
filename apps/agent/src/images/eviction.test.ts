// Guarantee: on a disk that is nearly full, unused images are removed, the one used longest ago first; one that a disk stands
// on, or is about to, stays.
import { mkdir, mkdtemp, mkdtempDisposable, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ArmedFailpoints, createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { ImageEviction } from './eviction.ts'
import { ImageStore } from './store.ts'

const manifest = {
  name: 'mini',
  version: '1',
  machine: 'pc',
  kernel: { file: 'vmlinuz' },
  initrd: { file: 'initrd' },
  disk: { file: 'disk.qcow2', virtual_size_bytes: 1024 },
  cmdline: '',
}

/** Three images of the age of their number in days; each frees one byte of a disk that has none free. */
async function host() {
  const folder = await mkdtemp(join(tmpdir(), 'dormouse-eviction-'))
  const store = new ImageStore({ given: undefined, fetched: folder })
  for (const version of [1, 2, 3]) {
    const image = join(folder, `mini@${version}`)
    await mkdir(image)
    await writeFile(join(image, 'manifest.json'), JSON.stringify({ ...manifest, version: String(version) }))
    const at = new Date(Date.now() - version * 86_400_000)
    await utimes(image, at, at)
  }
  const failpoints = new ArmedFailpoints()
  const at = { disks: new Set<string>(), names: new Set<string>(), partials: new Set<string>(), readable: true }
  const images = async () => (await readdir(folder)).sort()
  const eviction = new ImageEviction({
    store,
    foldersInUse: async () => {
      if (!at.readable) throw new Error('a disk cannot be read')
      return at.disks
    },
    namesInUse: () => at.names,
    templates: { removeWhile: async () => undefined, removeOn: async () => undefined },
    partials: () => at.partials,
    failpoints,
    log: createLog({ name: 'images', level: 'silent' }),
    free: async () => 3 - (await readdir(folder)).filter((name) => name.startsWith('mini')).length,
  })
  const dispose = () => rm(folder, { recursive: true, force: true })
  return { ...at, at, folder, store, eviction, failpoints, images, [Symbol.asyncDispose]: dispose }
}

test('the image that was used longest ago goes first, and no more than needed', async () => {
  await using host1 = await host()
  expect(await host1.eviction.makeSpace(0)).toBe(true)
  expect(await host1.images()).toHaveLength(3)
  expect(await host1.eviction.makeSpace(1)).toBe(true)
  expect(await host1.images()).toEqual(['mini@1', 'mini@2'])
  await host1.store.noteUse({ disk: join(host1.folder, 'mini@2', 'disk.qcow2') } as never)
  expect(await host1.eviction.makeSpace(2)).toBe(true)
  expect(await host1.images()).toEqual(['mini@2'])
})

test('an image that a disk stands on, or is being made from, is kept however short the disk is', async () => {
  await using host1 = await host()
  host1.disks.add(join(host1.folder, 'mini@3'))
  host1.names.add('mini@2')
  expect(await host1.eviction.makeSpace(3)).toBe(false)
  expect(await host1.images()).toEqual(['mini@2', 'mini@3'])
})

test('where it is not known what disks stand on, nothing is removed', async () => {
  await using host1 = await host()
  host1.at.readable = false
  await expect(host1.eviction.makeSpace(1)).rejects.toThrow('cannot be read')
  expect(await host1.images()).toHaveLength(3)
})

test('while a disk is being made nothing is removed', async () => {
  await using host1 = await host()
  const { promise: made, resolve } = Promise.withResolvers<void>()
  const making = host1.store.using(async () => {
    await made
    host1.disks.add(join(host1.folder, 'mini@3'))
  })
  const removing = host1.eviction.makeSpace(1)
  resolve()
  await Promise.all([making, removing])
  expect(await host1.images()).toEqual(['mini@1', 'mini@3'])
})

test('what an agent has left that died while it removed an image goes later; no name leads to it', async () => {
  await using host1 = await host()
  host1.failpoints.set('image.after-hide', 'throw')
  expect(await host1.eviction.makeSpace(1)).toBe(true)
  expect(await host1.store.list()).not.toContain('mini@3')
  host1.failpoints.set('image.after-hide', undefined)
  host1.disks.add(join(host1.folder, 'mini@1')).add(join(host1.folder, 'mini@2'))
  await host1.eviction.check()
  expect(await host1.images()).toEqual(['mini@1', 'mini@2'])
})

test('an image, or a part of one, that cannot be removed holds up no other', async () => {
  await using host1 = await host()
  host1.at.partials = {
    has: () => {
      throw new Error('cannot be looked at')
    },
  } as unknown as Set<string>
  await mkdir(join(host1.folder, '.fetching-mini@4'))
  let tries = 0
  // The one that was used longest ago is tried first.
  host1.failpoints.set('image.before-remove', async () => {
    if (tries++ === 0) throw new Error('cannot be removed')
  })
  expect(await host1.eviction.makeSpace(2)).toBe(true)
  expect([tries, (await host1.images()).filter((name) => name.startsWith('mini'))]).toEqual([3, ['mini@3']])
  host1.failpoints.set('image.before-remove', 'throw')
  await expect(host1.eviction.makeSpace(3)).rejects.toThrow('cannot be looked at')
})

test('templates give way on a host that has fetched no image', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'dormouse-eviction-'))
  const left = ['a template', 'another']
  const eviction = new ImageEviction({
    store: new ImageStore({ given: undefined, fetched: join(folder.path, 'images') }),
    foldersInUse: async () => new Set(),
    namesInUse: () => new Set(),
    templates: {
      removeWhile: async (isShort) => {
        while (left.length > 0 && (await isShort())) left.pop()
      },
      removeOn: async () => undefined,
    },
    partials: () => new Set(),
    failpoints: new ArmedFailpoints(),
    log: createLog({ name: 'images', level: 'silent' }),
    free: async () => (left.length > 1 ? 0 : Number.MAX_SAFE_INTEGER),
  })
  await eviction.check()
  expect(left).toEqual(['a template'])
})

test('a fetch in progress keeps what it has written; one that was given up does not', async () => {
  await using host1 = await host()
  for (const name of ['.fetching-going', '.fetching-old', '.fetching-new']) await mkdir(join(host1.folder, name))
  const old = new Date(Date.now() - 2 * 86_400_000)
  for (const name of ['.fetching-going', '.fetching-old']) await utimes(join(host1.folder, name), old, old)
  host1.partials.add('.fetching-going')
  await host1.eviction.makeSpace(1)
  expect(await host1.images()).toEqual(['.fetching-going', '.fetching-new', 'mini@1', 'mini@2'])
})
