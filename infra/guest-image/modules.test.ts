// Guarantee: modules are found and ordered without an index.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { dependsOn, loadOrder } from './modules.ts'

const folder = mkdtempSync(join(tmpdir(), 'dormouse-modules-'))
afterAll(() => rmSync(folder, { recursive: true }))

const moduleText = (depends: string) => Buffer.from(`\x7fELF…\0license=GPL\0depends=${depends}\0name=x\0`)

mkdirSync(join(folder, 'kernel/drivers'), { recursive: true })
writeFileSync(join(folder, 'modules.builtin'), 'kernel/fs/ext4/ext4.ko\nkernel/drivers/built-in-too.ko\n')
writeFileSync(join(folder, 'kernel/virtio_blk.ko'), moduleText('virtio,virtio-ring'))
writeFileSync(join(folder, 'kernel/drivers/virtio.ko.zst'), zstdCompressSync(moduleText('virtio_ring')))
writeFileSync(join(folder, 'kernel/drivers/virtio_ring.ko'), moduleText(''))

test('loads dependencies first, each module once and decompressed, and nothing that is built in', () => {
  const order = loadOrder(folder, ['ext4', 'virtio-blk', 'virtio', 'built_in_too'])
  expect(order.map(({ name }) => name)).toEqual(['virtio_ring', 'virtio', 'virtio_blk'])
  expect(order[1]?.bytes).toEqual(moduleText('virtio_ring'))
})

test('a missing module stops the build', () => {
  expect(() => loadOrder(folder, ['no_such'])).toThrow('no module no_such')
})

test('a module without a dependency list has no dependencies', () => {
  expect(dependsOn(Buffer.from('no modinfo at all'))).toEqual([])
})
