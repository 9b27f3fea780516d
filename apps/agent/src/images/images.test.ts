import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findImage, imageOfDisk, listImages } from './images.ts'

const manifest = {
  name: 'mini',
  version: 'abc',
  machine: 'pc',
  kernel: { file: 'vmlinuz' },
  initrd: { file: 'initrd' },
  disk: { file: 'disk.qcow2', virtual_size_bytes: 1024 },
  cmdline: 'quiet',
}

async function folder() {
  const path = await mkdtemp(join(tmpdir(), 'dormouse-images-'))
  await mkdir(join(path, 'images', 'mini@abc'), { recursive: true })
  await writeFile(join(path, 'images', 'mini@abc', 'manifest.json'), JSON.stringify(manifest))
  await symlink('mini@abc', join(path, 'images', 'mini'))
  await mkdir(join(path, 'images', '.making-1'))
  await mkdir(join(path, 'secret'))
  await writeFile(join(path, 'secret', 'manifest.json'), JSON.stringify(manifest))
  return { path: join(path, 'images'), [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

test('a name resolves to its version, so that a disk never changes under its owner', async () => {
  await using at = await folder()
  expect((await listImages(at.path)).sort()).toEqual(['mini', 'mini@abc'])
  const image = await findImage(at.path, 'mini')
  expect(image?.disk).toBe(join(at.path, 'mini@abc', 'disk.qcow2'))
  expect(await imageOfDisk(image!.disk)).toEqual(image)
})

test('a guest shares a clipboard only if its manifest says so', async () => {
  await using at = await folder()
  expect(await findImage(at.path, 'mini')).toMatchObject({ clipboard: false })
  await writeFile(join(at.path, 'mini@abc', 'manifest.json'), JSON.stringify({ ...manifest, clipboard: true }))
  expect(await findImage(at.path, 'mini')).toMatchObject({ clipboard: true })
})

test('a manifest may define when a guest is ready; one that defines it wrongly is not an image', async () => {
  await using at = await folder()
  const setReady = (ready: unknown) =>
    writeFile(join(at.path, 'mini@abc', 'manifest.json'), JSON.stringify({ ...manifest, ready }))
  expect((await findImage(at.path, 'mini'))?.ready).toBeUndefined()
  await setReady({ command: 'test -e /run/session' })
  expect((await findImage(at.path, 'mini'))?.ready).toEqual({ command: 'test -e /run/session', tryTimeoutSecs: 5 })
  await setReady({ command: ['true'], try_timeout_secs: 20 })
  expect((await findImage(at.path, 'mini'))?.ready).toEqual({ command: ['true'], tryTimeoutSecs: 20 })
  for (const wrong of [{}, { command: '' }, { command: [] }, { command: 'true', try_timeout_secs: 0 }, 'true']) {
    await setReady(wrong)
    expect(await findImage(at.path, 'mini')).toBeUndefined()
  }
})

test('a version never becomes a path', async () => {
  await using at = await folder()
  for (const version of ['../secret', '.', '..', '', 'mini/', 'mini@abc/../../secret', 'nothing']) {
    expect(await findImage(at.path, version)).toBeUndefined()
  }
})

test('a host without a folder of images has none', async () => {
  expect(await listImages('/no/such/folder')).toEqual([])
  expect(await findImage('/no/such/folder', 'mini')).toBeUndefined()
})
