// Guarantee: space that one save was promised is not promised to another; a manifest is changed whole, whichever release
// wrote it. (What is saved and restored: hibernate.test.ts.)
import { mkdtempDisposableSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp, mkdtempDisposable, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { partialMagic, wholeMagic } from '../driver/saved-file.ts'
import { fenceOf, spec } from '../testing/bench.ts'
import { MemoryImages } from './memory-images.ts'

test('of two saves at once, where there is room for one, the other is refused, and has the room when the first is done', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dormouse-memory-'))
  const memory = new MemoryImages(folder, newId())
  const { bavail, bsize } = await statfs(folder)
  const most = Math.floor((bavail * bsize * 0.6) / 1024 ** 2)
  const [begun, saved] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()]
  const first = memory.withSpaceFor(most, () => {
    begun.resolve()
    return saved.promise
  })
  await begun.promise
  const full = { code: 'host_disk_full' }
  await expect(memory.withSpaceFor(most, async () => 'too much')).rejects.toMatchObject(full)
  saved.resolve('first')
  expect(await first).toBe('first')
  await expect(memory.withSpaceFor(most, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  expect(await memory.withSpaceFor(most, async () => 'second')).toBe('second')
  await rm(folder, { recursive: true, force: true })
})

test('a save without space asks for it before it is refused', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'dormouse-memory-'))
  const gone = Promise.withResolvers<void>()
  const asked: boolean[] = []
  const memory = new MemoryImages(folder.path, newId(), async (isShort) => {
    asked.push(isShort())
    gone.resolve()
    await first
    asked.push(isShort())
  })
  const { bavail, bsize } = await statfs(folder.path)
  const most = Math.floor((bavail * bsize * 0.6) / 1024 ** 2)
  const first = memory.withSpaceFor(most, () => gone.promise)
  expect(await memory.withSpaceFor(most, async () => 'second')).toBe('second')
  expect(asked).toEqual([true, false])
})

const savedBy = { hypervisor: 'libvirt 9.0.0', emulator: 'QEMU 7.2.0', cpuModel: 'qemu64', machine: 'q35' }

/** A saved memory whose file is whole. */
async function savedMemory() {
  const folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-memory-'))
  const [installationId, id] = [newId(), newId()]
  const memory = new MemoryImages(folder.path, installationId)
  const image = await memory.intend(fenceOf(id, 1, 2), savedBy, spec)
  writeFileSync(image.path, wholeMagic.padEnd(200))
  return { memory, image, id, [Symbol.dispose]: () => folder.remove() }
}

test('a manifest changes in place, within the first sector, which a disk writes whole or not at all', async () => {
  using saved = await savedMemory()
  const { memory, image, id } = saved
  const before = statSync(image.manifestPath)
  await memory.recordDigest(id, (await memory.complete(image)).file, new AbortController().signal)
  const [complete] = memory.list(id)
  const sha256 = expect.stringMatching(/^[0-9a-f]{64}$/)
  expect(complete?.manifest).toEqual({ ...image.manifest, state: 'complete', bytes: 200, sha256 })
  await memory.spend(complete!)
  expect(memory.list(id)[0]?.manifest).toEqual({ ...complete!.manifest, state: 'spent' })
  const { ino, size } = statSync(image.manifestPath)
  expect([ino, size]).toEqual([before.ino, before.size])
  expect(readFileSync(image.manifestPath, 'utf8').indexOf('installationId')).toBeLessThan(512)
})

test('what changes an image from outside is noticed: its size, its header, its manifest, its removal', async () => {
  using saved = await savedMemory()
  const { memory, image, id } = saved
  await memory.complete(image)
  const seen = () => memory.list(id).map(({ manifest, bytes, magic }) => [manifest.state, bytes, magic])
  expect(seen()).toEqual([['complete', 200, wholeMagic]])
  truncateSync(image.path, 100)
  expect(seen()).toEqual([['complete', 100, wholeMagic]])
  rmSync(image.path)
  expect(seen()).toEqual([['complete', null, '']])
  expect(() => memory.verify(memory.list(id)[0]!)).toThrow('not where it was left')
  writeFileSync(image.path, partialMagic.padEnd(200))
  expect(() => memory.verify(memory.list(id)[0]!)).toThrow('its header is not that of a whole image')
  writeFileSync(image.manifestPath, '{}')
  expect(seen()).toEqual([])
  await memory.removeAll(id)
  expect(seen()).toEqual([])
  await memory.intend(fenceOf(id, 1, 4), savedBy, spec)
  expect(seen()).toEqual([['intended', null, '']])
})

test('a manifest that was cut off before its image was begun is no image', async () => {
  using saved = await savedMemory()
  writeFileSync(saved.image.manifestPath, readFileSync(saved.image.manifestPath).subarray(0, 50))
  expect(saved.memory.list(saved.id)).toEqual([])
})
