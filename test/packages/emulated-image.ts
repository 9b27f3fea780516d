// The image of an emulated Debian 12 machine: an ext4 without a partition table, a kernel and an initrd. It is made without
// mounts or loop devices, once for each choice of packages, and kept.
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { unpack } from '../../infra/guest-image/debs.ts'
import { writeInitrd } from '../../infra/guest-image/initrd.ts'
import { fetchKernelOf } from '../../infra/guest-image/mini/kernel-of.ts'
import { loadOrder } from '../../infra/guest-image/modules.ts'
import { run, type Say } from '../../scripts/testbed/processes.ts'
import { debianTree, digestOf, keptMachines } from '../install/debian-tree.ts'
import { addressOf } from './network.ts'

const suite = 'bookworm'
const diskMiB = 8_192
const more = ['udev', 'kmod', 'libpam-systemd', 'busybox-static', 'procps', 'apparmor']
const bootModules = ['virtio_pci', 'virtio_blk', 'crc32c_generic', 'ext4']
const unneeded =
  'apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer'

/** Returns the folder with `vmlinuz`, `initrd`, `disk.qcow2` and the `key` of root. The machine with a number has its address. */
export async function emulatedImage(packages: readonly string[], say: Say): Promise<string> {
  const digest = digestOf([addressOf(0), ...packages, readFileSync(import.meta.filename, 'utf8')])
  const image = join(keptMachines, `emulated-${digest}`)
  if (existsSync(image)) return image
  mkdirSync(keptMachines, { recursive: true })
  const work = mkdtempSync(join(keptMachines, '.making-'))
  try {
    await make(work, packages, say)
    renameSync(join(work, 'out'), image)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  return image
}

async function make(work: string, packages: readonly string[], say: Say): Promise<void> {
  const [root, out, kernel] = ['root', 'out', 'kernel'].map((name) => join(work, name)) as [string, string, string]
  mkdirSync(out)
  say('Making the image of an emulated machine')
  await run('cp', ['-a', '--reflink=auto', await debianTree(suite, [...more, ...packages]), root])
  for (const deb of await fetchKernelOf(suite, join(work, 'packages'), say)) await unpack(deb, kernel)
  const folder = ['usr/lib/modules', 'lib/modules'].map((path) => join(kernel, path)).find((path) => existsSync(path))!
  const version = readdirSync(folder)[0]!
  cpSync(join(folder, version), join(root, 'usr/lib/modules', version), { recursive: true })
  execFileSync('chroot', [root, 'depmod', version])
  cpSync(join(kernel, 'boot', `vmlinuz-${version}`), join(out, 'vmlinuz'))
  const modules = loadOrder(join(folder, version), bootModules)
  await writeInitrd(join(work, 'initrd'), join(root, 'bin/busybox'), modules, join(out, 'initrd'))
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(out, 'key')])
  settle(root, readFileSync(join(out, 'key.pub'), 'utf8'))
  const disk = join(work, 'disk.raw')
  await run('mke2fs', ['-q', '-t', 'ext4', '-m', '0', '-E', 'lazy_itable_init=0', '-d', root, disk, `${diskMiB}M`])
  await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', disk, join(out, 'disk.qcow2')])
}

/** Its network, its key, and nothing that works by itself. */
function settle(root: string, key: string): void {
  mkdirSync(join(root, 'root/.ssh'), { recursive: true, mode: 0o700 })
  writeFileSync(join(root, 'root/.ssh/authorized_keys'), key, { mode: 0o600 })
  for (const number of [21, 22])
    writeFileSync(
      join(root, `etc/systemd/network/80-${number}.network`),
      `[Match]\nMACAddress=${macOf(number)}\n[Network]\nAddress=${addressOf(number)}/24\n`,
    )
  appendFileSync(join(root, 'etc/fstab'), '/dev/vda / ext4 rw,noatime 0 1\n')
  execFileSync('chroot', [root, 'systemctl', '--quiet', 'mask', ...unneeded.split(' ')])
  execFileSync('chroot', [root, 'systemctl', '--quiet', 'enable', 'systemd-networkd'])
}

export const macOf = (number: number) => `52:54:00:00:00:${number}`
