// Guarantee: a disk from another host makes QEMU open no file but itself and this host's image.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requireOverlay } from './qcow2.ts'

const gib = 1024 ** 3
const ofGib = { least: gib, most: gib }
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-qcow2-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The first bytes of a qcow2 file; each change is at an offset of its header. */
function header(changes: [offset: number, value: bigint][] = []): string {
  const bytes = Buffer.alloc(512)
  bytes.writeUInt32BE(0x514649fb, 0)
  bytes.writeUInt32BE(3, 4)
  bytes.writeBigUInt64BE(BigInt(gib), 24)
  for (const [offset, value] of changes) bytes.writeBigUInt64BE(value, offset)
  const path = join(folder, 'disk')
  writeFileSync(path, bytes)
  return path
}

test('a plain overlay of the right size passes', async () => {
  await expect(requireOverlay(header(), ofGib)).resolves.toBeUndefined()
})

test('where its size may differ, it may be smaller than the largest', async () => {
  await expect(requireOverlay(header(), { least: gib / 2, most: 2 * gib })).resolves.toBeUndefined()
  await expect(requireOverlay(header(), { least: 2 * gib, most: 3 * gib })).rejects.toThrow('another size')
})

test.each<[what: string, path: () => string]>([
  ['another size', () => header([[24, BigInt(2 * gib)]])],
  ['a file beside it for its data', () => header([[72, 4n]])],
  ['an unknown feature', () => header([[72, 1n << 40n]])],
  ['encryption', () => header([[32, 1n << 32n]])],
  ['another format', () => header([[0, 0n]])],
  ['an older format', () => header([[0, 0x514649fb00000001n]])],
])('a disk with %s is refused', async (_what, path) => {
  await expect(requireOverlay(path(), ofGib)).rejects.toMatchObject({ code: 'hypervisor_failed' })
})

test('a file that is too short is refused', async () => {
  const path = join(folder, 'short')
  writeFileSync(path, 'QFI')
  await expect(requireOverlay(path, ofGib)).rejects.toMatchObject({ code: 'hypervisor_failed' })
})
