// Guarantee: images are in use by the disks that desktops have, whatever another host sends meanwhile.
import { mkdirSync, mkdtempDisposableSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { LibvirtDisks } from './disks.ts'

/** The start of a qcow2 image on that file, whose name has this many bytes. */
function headerOf(backingFile: string, length = Buffer.byteLength(backingFile)): Buffer {
  const header = Buffer.alloc(104)
  header.writeUInt32BE(0x514649fb, 0)
  header.writeUInt32BE(3, 4)
  header.writeBigUInt64BE(104n, 8)
  header.writeUInt32BE(length, 16)
  return Buffer.concat([header, Buffer.from(backingFile)])
}

function place() {
  const made = mkdtempDisposableSync(join(tmpdir(), 'dormouse-disks-'))
  const at = (name: string) => join(made.path, name)
  const disks = new LibvirtDisks(made.path, {} as never, () => Promise.reject(new Error('no pool')))
  writeFileSync(at(`${newId()}.qcow2`), headerOf('/images/mini@1/disk.qcow2'))
  return { at, disks, [Symbol.dispose]: () => made.remove() }
}

test.each([
  ['nothing but zeros', (path: string) => writeFileSync(path, Buffer.alloc(65_536))],
  ['no byte', (path: string) => writeFileSync(path, '')],
  ['half a header', (path: string) => writeFileSync(path, headerOf('/images/other/disk').subarray(0, 12))],
  ['a name that is too long', (path: string) => writeFileSync(path, headerOf('/images/other/disk', 100_000))],
  ['a name behind its end', (path: string) => writeFileSync(path, headerOf('/images/other/disk', 900))],
  ['the name of an image of this host', (path: string) => writeFileSync(path, headerOf('/images/other/disk'))],
  ['a folder', (path: string) => mkdirSync(path)],
  ['a link to nothing', (path: string) => symlinkSync('/nowhere', path)],
])('a disk that arrives and has %s keeps no image', async (_, make) => {
  using host = place()
  make(host.at(`${newId()}.arriving`))
  expect(await host.disks.imageFolders()).toEqual(new Set(['/images/mini@1']))
})

test('a desktop’s disk that cannot be read is an error: its image is not known', async () => {
  using host = place()
  writeFileSync(host.at(`${newId()}.qcow2`), Buffer.alloc(65_536))
  await expect(host.disks.imageFolders()).rejects.toThrow('is not a qcow2 image')
})
