// The mini guest: a kernel for virtual machines, BusyBox, the guest agent, an SSH server; nothing else. Made from the
// distribution's packages without root, mounts or loop devices. Knows nothing of desktops or hosts.
//
// An image is never changed in place, since desktops' disks are overlays on it: every version has a folder of its own,
// `<imagesDir>/mini@<version>`, and `<imagesDir>/mini` leads to the newest.

import { createHash } from 'node:crypto'
import {
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { quote } from '../../scripts/ground/namespaces.ts'
import { run, type Say } from '../../scripts/ground/processes.ts'
import { type Deb, fetchDebs, unpack } from './debs.ts'
import { describeFile, isWhole, type Manifest, readManifest } from './manifest.ts'
import { loadOrder, type Module } from './modules.ts'
import { copyPrograms } from './programs.ts'

export type Image = { dir: string; manifest: Manifest }

const here = import.meta.dirname
const name = 'mini'
const packages = [
  'busybox-static',
  'qemu-guest-agent',
  'openssh-server',
  'openssh-client',
  'openssh-sftp-server',
  'e2fsprogs',
]
const programs = [
  'usr/sbin/qemu-ga',
  'usr/sbin/sshd',
  'usr/bin/ssh-keygen',
  'usr/lib/openssh/sftp-server',
  'usr/sbin/resize2fs',
]
const bootModules = ['virtio_pci', 'virtio_blk', 'ext4', 'virtio_console']
const lateModules = ['button', 'evdev', 'virtio_input', 'virtio_rng', 'virtio_net', 'af_packet']
const cmdline = 'console=tty0 console=ttyS0 quiet loglevel=3 panic=1 mitigations=off nokaslr cryptomgr.notests'
const diskMiB = 512
const modes: Record<string, number> = { tmp: 0o1777, root: 0o700, 'home/user': 0o700, 'etc/shadow': 0o600 }

/**
 * Answers the mini image below this folder, and builds it where this recipe has not been built there yet.
 * `renew` builds it again where the distribution has newer packages.
 */
export async function ensureMiniImage({
  imagesDir,
  say,
  renew = false,
}: {
  imagesDir: string
  say: Say
  renew?: boolean
}): Promise<Image> {
  const recipe = recipeDigest()
  const image = newest(imagesDir)
  if (image && !renew && image.manifest.recipe === recipe) return image
  return build(imagesDir, recipe, say)
}

function newest(imagesDir: string): Image | undefined {
  const link = join(imagesDir, name)
  if (!existsSync(join(link, 'manifest.json'))) return undefined
  const dir = join(imagesDir, readlinkSync(link))
  const manifest = readManifest(dir)
  return isWhole(dir, manifest) ? { dir, manifest } : undefined
}

/** Two builds at once do not meet before the rename, and there the first one wins. */
async function build(imagesDir: string, recipe: string, say: Say): Promise<Image> {
  mkdirSync(imagesDir, { recursive: true })
  const work = mkdtempSync(join(imagesDir, '.making-'))
  try {
    say('Fetching the packages of the mini guest')
    const debs = await fetchDebs(distribution().id, packages, join(work, 'debs'), say)
    const version = digest([recipe, ...debs.map((deb) => `${deb.name}=${deb.version}`)]).slice(0, 12)
    const dir = join(imagesDir, `${name}@${version}`)
    if (!existsSync(dir)) await make(work, dir, { debs, version, recipe, say })
    lead(join(imagesDir, name), `${name}@${version}`)
    return { dir, manifest: readManifest(dir) }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

type Plan = { debs: Deb[]; version: string; recipe: string; say: Say }

async function make(work: string, dir: string, { debs, version, recipe, say }: Plan): Promise<void> {
  say(`Building the mini guest ${version}`)
  const kernel = systemTree(join(work, 'kernel'))
  const tree = systemTree(join(work, 'tree'))
  await Promise.all(debs.map((deb) => unpack(deb, deb.name.startsWith('linux-') ? kernel : tree)))
  const kernelVersion = readdirSync(join(kernel, 'usr/lib/modules'))[0]!
  const modules = join(kernel, 'usr/lib/modules', kernelVersion)
  const out = join(work, 'out')
  mkdirSync(out)
  copyFileSync(join(kernel, 'boot', `vmlinuz-${kernelVersion}`), join(out, 'vmlinuz'))
  const boot = loadOrder(modules, bootModules)
  await writeInitrd(join(work, 'initrd'), tree, boot, join(out, 'initrd'))
  const late = loadOrder(modules, lateModules).filter((module) => !boot.some(({ name }) => name === module.name))
  await writeDisk(await rootTree(join(work, 'root'), tree, late), join(work, 'disk.raw'), join(out, 'disk.qcow2'))
  const { id, release } = distribution()
  const manifest: Manifest = {
    format: 1,
    name,
    version,
    arch: 'x86_64',
    machine: 'pc',
    kernel: await describeFile(out, 'vmlinuz'),
    initrd: await describeFile(out, 'initrd'),
    disk: { ...(await describeFile(out, 'disk.qcow2')), format: 'qcow2', virtual_size_bytes: diskMiB * 2 ** 20 },
    cmdline,
    transports: ['ssh', 'qga'],
    kernel_version: kernelVersion,
    built_from: Object.fromEntries(debs.map((deb) => [deb.name, deb.version])),
    distribution: `${id} ${release}`,
    recipe,
  }
  writeFileSync(join(out, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  place(out, dir)
}

/** The program that finds the disk, and the modules for that. Not compressed: an emulated guest unpacks it more slowly than it reads it. */
async function writeInitrd(root: string, tree: string, modules: Module[], file: string): Promise<void> {
  for (const each of ['bin', 'dev', 'mnt', 'lib/modules']) mkdirSync(join(root, each), { recursive: true })
  cpSync(join(here, 'mini/initrd'), root, { recursive: true })
  copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'bin/busybox'))
  writeModules(modules, join(root, 'lib/modules'))
  await run('/bin/sh', ['-c', `find . | busybox cpio -o -H newc -R 0:0 > ${quote(file)}`], { cwd: root })
}

/** The guest's file system as a folder: our own files over BusyBox's names and the programs with their libraries. */
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
    'etc/dormouse',
  ]) {
    mkdirSync(join(root, each), { recursive: true })
  }
  await copyPrograms(tree, root, programs)
  copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'usr/bin/busybox'))
  cpSync(join(here, 'mini/rootfs'), root, { recursive: true })
  copyFileSync(join(here, 'ssh-port/dormouse-ssh-port'), join(root, 'usr/lib/dormouse/dormouse-ssh-port'))
  copyFileSync(join(here, 'ssh-port/sshd_config'), join(root, 'etc/dormouse/sshd_config'))
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

/** Owner and mode of a file in the guest are what they shall be there, whoever builds it and under whatever umask. */
function inodeFields(root: string, path: string): string[] {
  const file = lstatSync(join(root, path))
  const owner = path === 'home/user' ? 1000 : 0
  const kind = file.mode & 0o170000
  const mode = file.isSymbolicLink() ? 0o777 : (modes[path] ?? (file.mode & 0o100 ? 0o755 : 0o644))
  const fields = { uid: owner, gid: owner, mode: `0${(kind | mode).toString(8)}` }
  return Object.entries(fields).map(([field, value]) => `sif "/${path}" ${field} ${value}\n`)
}

/** Load order is name order. */
function writeModules(modules: Module[], folder: string): void {
  for (const [i, { name, bytes }] of modules.entries()) {
    writeFileSync(join(folder, `${String(i).padStart(2, '0')}-${name}.ko`), bytes)
  }
}

/** A tree in which /bin, /sbin and /lib are names for folders of /usr, as every current distribution has it. */
function systemTree(root: string): string {
  for (const each of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(join(root, 'usr', each), { recursive: true })
    symlinkSync(`usr/${each}`, join(root, each))
  }
  return root
}

/** Where another build was first, its result stays: it is of the same version, and may be in use. */
function place(out: string, dir: string): void {
  try {
    renameSync(out, dir)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Points the link to the folder, in one step for whoever reads it. */
function lead(link: string, target: string): void {
  const fresh = `${link}.${process.pid}`
  rmSync(fresh, { force: true })
  symlinkSync(target, fresh)
  renameSync(fresh, link)
}

/** Digest of everything that decides what is inside, but the packages: this folder, and the distribution. */
function recipeDigest(): string {
  const files = globSync('**/*', { cwd: here }).filter(
    (file) => !file.endsWith('.test.ts') && statSync(join(here, file)).isFile(),
  )
  const { id, release } = distribution()
  return digest([id, release, ...files.sort().flatMap((file) => [file, readFileSync(join(here, file), 'latin1')])])
}

function digest(parts: string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex')
}

function distribution(): { id: string; release: string } {
  const text = readFileSync('/etc/os-release', 'utf8')
  const field = (key: string) => new RegExp(`^${key}="?([^"\n]*)"?$`, 'm').exec(text)?.[1] ?? ''
  return { id: field('ID'), release: field('VERSION_ID') }
}
