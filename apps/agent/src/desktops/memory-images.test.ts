// Guarantee: room that one save was promised is not promised to another. (What is saved and restored: hibernate.test.ts.)
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
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
