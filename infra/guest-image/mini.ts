// The mini image: a kernel for virtual machines, BusyBox, the guest agent and an SSH server. It is built from the
// distribution's packages without root, mounts or loop devices.

import { copyFileSync, cpSync, existsSync, globSync, lstatSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { run, type Say } from '../../scripts/testbed/processes.ts'
import { type Deb, fetchDebs, kernelFor, unpack } from './debs.ts'
import { writeInitrd, writeModules } from './initrd.ts'
import { fetchKernelOf } from './mini/kernel-of.ts'
import { loadOrder, type Module } from './modules.ts'
import { copyPrograms } from './programs.ts'
import { ensureImage, type Facts, type Image, type ImageRequest, type Maker } from './store.ts'
import { systemTree } from './system-tree.ts'

const here = import.meta.dirname
const name = 'mini'
const packages = ['busybox-static', 'qemu-guest-agent', 'openssh-server', 'openssh-client', 'e2fsprogs']
const programs = ['usr/sbin/qemu-ga', 'usr/sbin/sshd', 'usr/bin/ssh-keygen', 'usr/sbin/resize2fs']
const bootModules = ['virtio_pci', 'virtio_blk', 'ext4', 'virtio_console']
const lateModules = ['button', 'evdev', 'virtio_input', 'virtio_rng', 'virtio_balloon', 'virtio_net', 'af_packet']
const cmdline = 'console=tty0 console=ttyS0 quiet loglevel=3 panic=1 mitigations=off nokaslr cryptomgr.notests'
const diskMiB = 512
const modes: Record<string, number> = { tmp: 0o1777, root: 0o700, 'home/user': 0o700, 'etc/shadow': 0o600 }

/** `kernelOf` is another release of Debian, whose kernel the guests get: for tests. */
export type MiniRequest = ImageRequest & { kernelOf?: string | undefined }

/** Returns the mini image in this folder, and builds it if needed. */
export function ensureMiniImage({ kernelOf, ...request }: MiniRequest): Promise<Image> {
  return ensureImage(makerWith(kernelOf), request)
}

function makerWith(kernelOf: string | undefined): Maker {
  return {
    name,
    recipe: name,
    own: kernelOf ? [`the kernel of ${kernelOf}`] : [],
    gather: async (work, say) => {
      const debs = await gather(work, say, kernelOf)
      const versions = Object.fromEntries(debs.map((deb) => [deb.name, deb.version]))
      return { packages: versions, make: (out) => make(work, out, debs) }
    },
  }
}

async function gather(work: string, say: Say, kernelOf: string | undefined): Promise<Deb[]> {
  const debs = await fetchDebs(kernelFor('machines'), packages, join(work, 'debs'), say)
  if (!kernelOf) return debs
  return [...debs.filter((deb) => !isKernel(deb)), ...(await fetchKernelOf(kernelOf, join(work, kernelOf), say))]
}

const isKernel = ({ name }: Deb) => name.startsWith('linux-')

async function make(work: string, out: string, debs: Deb[]): Promise<Facts> {
  const kernel = systemTree(join(work, 'kernel'))
  const tree = systemTree(join(work, 'tree'))
  await Promise.all(debs.map((deb) => unpack(deb, isKernel(deb) ? kernel : tree)))
  const kernelVersion = readdirSync(join(kernel, 'usr/lib/modules'))[0]!
  const modules = join(kernel, 'usr/lib/modules', kernelVersion)
  copyFileSync(join(kernel, 'boot', `vmlinuz-${kernelVersion}`), join(out, 'vmlinuz'))
  const boot = loadOrder(modules, bootModules)
  await writeInitrd(join(work, 'initrd'), join(tree, 'usr/bin/busybox'), boot, join(out, 'initrd'))
  const late = loadOrder(modules, lateModules).filter((module) => !boot.some(({ name }) => name === module.name))
  await writeDisk(await rootTree(join(work, 'root'), tree, late), join(work, 'disk.raw'), join(out, 'disk.qcow2'))
  return { cmdline, clipboard: false, kernel_version: kernelVersion, diskMiB }
}

/** The guest's file system as a folder: programs with their libraries, BusyBox's commands, and our files over them. */
async function rootTree(root: string, tree: string, modules: Module[]): Promise<string> {
  systemTree(root)
  for (const each of [
    'dev',
    'proc',
    'sys',
    'run',
    'tmp',
    'mnt',
    'root',
    'home/user',
    'var/log',
    'usr/lib/modules',
    'etc/ssh',
    'etc/ssh',
  ]) {
    mkdirSync(join(root, each), { recursive: true })
  }
  await copyPrograms(tree, root, programs)
  copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'usr/bin/busybox'))
  cpSync(join(here, 'mini/rootfs'), root, { recursive: true })
  const applets = (await run(join(tree, 'usr/bin/busybox'), ['--list'])).trim().split('\n')
  const missing = applets.filter(
    (applet) => !existsSync(join(root, 'usr/bin', applet)) && !existsSync(join(root, 'usr/sbin', applet)),
  )
  for (const applet of missing) symlinkSync('busybox', join(root, 'usr/bin', applet))
  for (const applet of ['init', 'hwclock']) symlinkSync('../bin/busybox', join(root, 'usr/sbin', applet))
  symlinkSync('/run', join(root, 'var/run'))
  writeModules(modules, join(root, 'usr/lib/modules'))
  return root
}

/** An ext4 without a partition table. */
async function writeDisk(root: string, raw: string, file: string): Promise<void> {
  const features = ['-E', 'lazy_itable_init=0', '-O', '^metadata_csum']
  await run('mke2fs', ['-q', '-t', 'ext4', '-L', name, '-d', root, ...features, raw, `${diskMiB}M`])
  const paths = ['.', ...globSync('**', { cwd: root })]
  await run('debugfs', ['-w', '-f', '-', raw], { input: paths.flatMap((path) => inodeFields(root, path)).join('') })
  await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', raw, file])
}

/** Sets owner and mode of each file in the guest, independent of who builds it and under which umask. */
function inodeFields(root: string, path: string): string[] {
  const file = lstatSync(join(root, path))
  const owner = path === 'home/user' ? 1000 : 0
  const kind = file.mode & 0o170000
  const mode = file.isSymbolicLink() ? 0o777 : (modes[path] ?? (file.mode & 0o100 ? 0o755 : 0o644))
  const fields = { uid: owner, gid: owner, mode: `0${(kind | mode).toString(8)}` }
  return Object.entries(fields).map(([field, value]) => `sif "/${path}" ${field} ${value}\n`)
}
