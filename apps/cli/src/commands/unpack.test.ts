// Guarantee: whatever archive a desktop sends, nothing outside the folder is written or read, and the attempt is reported.
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveOf, type Given } from '../testing/archives.ts'
import { folder } from '../testing/process.ts'
import { unpack } from './unpack.ts'

/** In pieces that no header fits into. */
async function* inPieces(archive: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < archive.length; at += 300) yield archive.subarray(at, at + 300)
}

const into = (to: string, archive: Buffer) =>
  unpack(inPieces(archive), to, { add: () => undefined, signal: new AbortController().signal })

test.each<[what: string, entry: Given]>([
  ['that climbs', { name: '../x', body: 'x' }],
  ['that climbs in the middle', { name: './a/../../x', body: 'x' }],
  ['that climbs, by a long header', { name: `./${'ü'.repeat(90)}/../../x`, body: 'x' }],
  ['that is absolute', { name: '/tmp/never/x', body: 'x' }],
  ['that is the folder’s own', { name: './', type: 'file' }],
  ['of a folder that climbs', { name: '../out-of-it/', type: 'directory' }],
  ['of a link that climbs', { name: '../link', type: 'symlink', linkname: 'x' }],
  ['of a hard link that leads out', { name: 'x', type: 'link', linkname: '../secret' }],
  ['of a hard link that is absolute', { name: 'x', type: 'link', linkname: '/etc/passwd' }],
])('a name %s is not written, and is told', async (_what, entry) => {
  const here = folder()
  mkdirSync(join(here, 'out'))
  writeFileSync(join(here, 'secret'), 'secret')
  const archive = await archiveOf({ name: './good', body: '1' }, entry)
  await expect(into(join(here, 'out'), archive)).rejects.toThrow('not in the folder')
  expect(readdirSync(here, { recursive: true }).sort()).toEqual(['out', 'out/good', 'secret'])
})

test('nothing is written or read through a link of the archive, or read through one of the folder', async () => {
  const here = folder()
  const out = join(here, 'out')
  mkdirSync(join(here, 'elsewhere'))
  mkdirSync(out)
  writeFileSync(join(here, 'elsewhere/secret'), 'secret')
  symlinkSync('../elsewhere/secret', join(out, 'own'))
  symlinkSync('../elsewhere/secret', join(out, 'other'))
  symlinkSync('../elsewhere', join(out, 'folder'))
  const { skipped, files } = await into(
    out,
    await archiveOf(
      { name: './way', type: 'symlink', linkname: join(here, 'elsewhere') },
      { name: './way/secret', body: 'written' },
      { name: './own', body: 'written' },
      { name: './copied', type: 'link', linkname: './own' },
      { name: './read', type: 'link', linkname: './folder/secret' },
      { name: './read-too', type: 'link', linkname: './other' },
      { name: './none', type: 'link', linkname: './no-such' },
    ),
  )
  expect([files, skipped]).toEqual([3, ['way', 'read', 'read-too', 'none']])
  expect(readdirSync(join(here, 'elsewhere'))).toEqual(['secret'])
  expect(readFileSync(join(here, 'elsewhere/secret'), 'utf8')).toBe('secret')
  for (const file of ['way/secret', 'own', 'copied']) expect(readFileSync(join(out, file), 'utf8')).toBe('written')
})

test('devices, FIFOs and links are skipped, and of many only the first are named', async () => {
  const kinds = ['fifo', 'block-device', 'character-device', 'symlink'] as const
  const many = Array.from({ length: 2_000 }, (_, i): Given => ({ name: `./${i}`, type: kinds[i % 4]!, linkname: 'x' }))
  const out = folder()
  const { skipped, skippedCount, files } = await into(out, await archiveOf(...many, { name: './good', body: '1' }))
  expect([skipped.length, skippedCount, files, readdirSync(out)]).toEqual([1_000, 2_000, 1, ['good']])
})

test('a name that is not UTF-8 is skipped', async () => {
  const archive = await archiveOf({ name: './xx', body: '1' }, { name: './good', body: '2' })
  archive[3] = 0xff
  const sum = Number.parseInt(archive.toString('latin1', 148, 154), 8) + 0xff - 'x'.charCodeAt(0)
  archive.write(sum.toString(8).padStart(6, '0'), 148)
  const out = folder()
  expect([(await into(out, archive)).skippedCount, readdirSync(out)]).toEqual([1, ['good']])
})

test('what is no archive, ends in the middle of a file, or has an endless header is told, and leaves no part of a file', async () => {
  const out = folder()
  const whole = await archiveOf({ name: './x', body: 'x'.repeat(5_000) })
  const endless = await archiveOf({ name: 'ü'.repeat(90), body: '1' })
  endless.write('77777777777', 124)
  endless.write(' '.repeat(8), 148)
  endless.write(
    `${endless
      .subarray(0, 512)
      .reduce((all, byte) => all + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
  )
  for (const archive of [Buffer.alloc(2_000, 'x'), whole.subarray(0, 3_000), endless])
    await expect(into(out, archive)).rejects.toThrow('did not send a tar archive')
  expect(readdirSync(out)).toEqual([])
})
