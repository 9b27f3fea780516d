import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Manifest } from '../guest-image/manifest.ts'
import { publish } from './publish.ts'

function built() {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-publish-'))
  const dir = join(folder, 'built')
  mkdirSync(dir)
  const file = (name: string) => {
    writeFileSync(join(dir, name), name, { mode: 0o600 })
    return { file: name, size: name.length, sha256: createHash('sha256').update(name).digest('hex') }
  }
  const files = { kernel: file('vmlinuz'), initrd: file('initrd'), disk: file('disk.qcow2') }
  const manifest = { name: 'mini', version: '1', ...files } as unknown as Manifest
  writeFileSync(join(dir, 'manifest.json'), JSON.stringify(manifest))
  const dispose = () => rmSync(folder, { recursive: true, force: true })
  return { image: { dir, manifest }, to: join(folder, 'published'), [Symbol.dispose]: dispose }
}

test('a published image has what its manifest says, is readable by a web server, and publishing it again changes nothing', async () => {
  using at = built()
  const { dir, digest } = await publish(at.image, at.to)
  expect(readdirSync(dir).sort()).toEqual(['disk.qcow2', 'initrd', 'manifest.json', 'vmlinuz'])
  expect(digest).toBe(
    createHash('sha256')
      .update(readFileSync(join(dir, 'manifest.json')))
      .digest('hex'),
  )
  expect([statSync(dir).mode & 0o777, statSync(join(dir, 'vmlinuz')).mode & 0o777]).toEqual([0o755, 0o644])
  expect(await publish(at.image, at.to)).toEqual({ dir, digest })
  expect(readdirSync(at.to)).toEqual(['mini@1'])
})

test('a version never changes, and a damaged file is not published', async () => {
  using at = built()
  await publish(at.image, at.to)
  writeFileSync(join(at.image.dir, 'manifest.json'), '{}')
  await expect(publish(at.image, at.to)).rejects.toThrow('another content')
  rmSync(at.to, { recursive: true })
  writeFileSync(join(at.image.dir, 'vmlinuz'), 'damaged')
  await expect(publish(at.image, at.to)).rejects.toThrow('not what its manifest says')
  expect(readdirSync(at.to)).toEqual([])
})
