// Guarantee: an agent that is not root goes on after one that was killed while it copied a template's disk.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempDisposableSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { isRoot } from '../../scripts/testbed/namespaces.ts'
import { run } from '../../scripts/testbed/processes.ts'

const driver = join(import.meta.dirname, '../../apps/agent/src/driver/libvirt')
const images = join(import.meta.dirname, '../../apps/agent/src/images')
const id = '01900000-0000-7000-8000-000000000000'
const spec = { vcpus: 1, memoryMiB: 16, diskGiB: 1, imageVersion: 'mini' }
/** Somebody without any of root's powers, to whom root's files are their own. */
const nobody = isRoot() ? ['unshare', '--user', '--map-user=65534', '--map-group=65534', '--'] : []

const makeDisk = (path: string, backing: string[], bytes: number) =>
  run('qemu-img', ['create', '-q', '-f', 'qcow2', ...backing, path, String(bytes)])

/** An image, and a desktop's disk on it, half of which a template's disk was to replace. */
async function cutCopy(folder: string) {
  const [image, disks] = [join(folder, 'mini'), join(folder, 'disks')]
  for (const made of [image, disks]) mkdirSync(made)
  const disk = { file: 'disk.qcow2', virtual_size_bytes: 1024 ** 2 }
  const files = { kernel: { file: 'vmlinuz' }, initrd: { file: 'initrd' }, disk }
  writeFileSync(
    join(image, 'manifest.json'),
    JSON.stringify({ name: 'mini', version: '1', machine: 'pc', cmdline: '', ...files }),
  )
  await makeDisk(join(image, disk.file), [], disk.virtual_size_bytes)
  const [path, arriving] = [join(disks, `${id}.qcow2`), join(disks, `${id}.arriving`)]
  await makeDisk(path, ['-F', 'qcow2', '-b', join(image, disk.file)], 1024 ** 2)
  // As the copy makes it: with the mode of what it copies.
  writeFileSync(arriving, 'half', { mode: 0o444 })
  return { disks, path, arriving }
}

test('the disk of a desktop whose first wake was killed is emptied', async () => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-cut-'))
  const { disks, path, arriving } = await cutCopy(at.path)
  const script = `
    import { LibvirtDisks } from '${driver}/disks.ts'
    import { LibvirtTemplates } from '${driver}/templates.ts'
    import { ImageStore } from '${images}/store.ts'
    const images = new ImageStore({ given: '${at.path}', fetched: '${disks}/images' })
    const templates = new LibvirtTemplates({ disks: new LibvirtDisks('${disks}', images, () => undefined) })
    await templates.emptyDisk('${id}', ${JSON.stringify(spec)})`
  const [program, ...words] = [...nobody, process.execPath, '--input-type=module', '-e', script]
  await promisify(execFile)(program!, words)
  expect(existsSync(arriving)).toBe(false)
  expect(statSync(path).mode & 0o200).toBe(0o200)
  expect(JSON.parse(await run('qemu-img', ['info', '--output=json', path]))).toMatchObject({
    'virtual-size': spec.diskGiB * 1024 ** 3,
    'full-backing-filename': join(at.path, 'mini', 'disk.qcow2'),
  })
})
