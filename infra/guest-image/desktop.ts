// The desktop image: the distribution's system with systemd, an X server, XFCE and a browser, in which "user" is logged in.
// Its packages are installed into a folder, and the folder becomes a disk. This needs no loop devices, but it needs root,
// since the files belong to several users.

import { copyFileSync, cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRoot, quote } from '../../scripts/testbed/namespaces.ts'
import { ensurePackages } from '../../scripts/testbed/packages.ts'
import { run, type Say } from '../../scripts/testbed/processes.ts'
import { type Deb, fetchDebs, kernelFor, unpack } from './debs.ts'
import { writeInitrd } from './initrd.ts'
import { loadOrder } from './modules.ts'
import { keyboardConf, type OwnDesktop, ownParts } from './own-desktop.ts'
import { distribution } from './recipe.ts'
import { ensureImage, type Facts, type Image, type ImageRequest, type Maker } from './store.ts'
import { systemTree } from './system-tree.ts'

const here = import.meta.dirname
const system = ['systemd-sysv', 'systemd-resolved', 'udev', 'dbus', 'dbus-user-session', 'libpam-systemd', 'kmod']
const tools = ['iproute2', 'procps', 'sudo', 'less', 'nano', 'python3', 'curl', 'ca-certificates']
const hostsSide = ['qemu-guest-agent', 'openssh-server', 'spice-vdagent']
const screen = [
  'xserver-xorg-core',
  'xserver-xorg-input-libinput',
  'xinit',
  'x11-xserver-utils',
  'x11-xkb-utils',
  'xclip',
]
const session = ['xfce4-session', 'xfwm4', 'xfce4-panel', 'xfdesktop4', 'xfce4-settings', 'xdg-utils']
const programs = ['xfce4-terminal', 'thunar', 'mousepad']
const looks = [
  ...['greybird-gtk-theme', 'elementary-xfce-icon-theme', 'librsvg2-common'],
  ...['fonts-dejavu-core', 'fonts-liberation'],
]
/** Ubuntu's own Firefox and Chromium are snaps, which cannot be installed into a folder. */
const browsers: Record<string, string> = { debian: 'firefox-esr', ubuntu: 'epiphany-browser' }
const packages = [...system, ...tools, ...hostsSide, ...screen, ...session, ...programs, ...looks]

const bootModules = ['virtio_pci', 'virtio_blk', 'crc32c_generic', 'ext4', 'virtio_console']
/** The kernel modules that a QEMU guest uses, of a few thousand. */
const modules = [
  ...bootModules,
  ...['virtio_net', 'virtio_rng', 'virtio_input', 'virtio_balloon', 'virtio_gpu', 'bochs'],
  ...['evdev', 'button', 'psmouse', 'uinput', 'af_packet', 'fuse', 'overlay', 'loop', 'tun'],
]
/** Units that would wake up for nothing. */
const unused = [
  ...[
    'apt-daily.timer',
    'apt-daily-upgrade.timer',
    'dpkg-db-backup.timer',
    'e2scrub_all.timer',
    'e2scrub_reap.service',
  ],
  ...['fstrim.timer', 'systemd-networkd-wait-online.service', 'systemd-timesyncd.service', 'getty@tty1.service'],
  // The host has its own port. Users who want SSH over the network enable it themselves.
  ...['ssh.service', 'ssh.socket'],
]
const used = [...['dormouse-desktop', 'dormouse-host-key', 'spice-vdagentd.socket', 'systemd-networkd']]
const left = ['doc', 'info', 'locale', 'man']
/** A second clipboard agent in the session would end both. */
const unwanted = ['etc/xdg/autostart/spice-vdagent.desktop']
/** `tsc=reliable`: an emulated guest would read the time from a device otherwise, thousands of times a second. */
const cmdline =
  'root=/dev/vda rw console=ttyS0 console=tty0 quiet loglevel=3 systemd.show_status=0 mitigations=off nokaslr tsc=reliable'
/** Runs as the user of the screen: only that user has access to it. */
const ready = {
  command: ['setpriv', '--reuid=user', '--regid=user', '--clear-groups', '/usr/lib/dormouse/desktop-ready'],
  try_timeout_secs: 30,
}
const diskMiB = 6144

const recipe = 'desktop'
const standard: OwnDesktop = { name: recipe, packages: [], keyboard: 'us' }

/** Returns the desktop image in this folder, and builds it if needed, which takes some minutes. */
export function ensureDesktopImage(request: ImageRequest, own: OwnDesktop = standard): Promise<Image> {
  return ensureImage(makerOf(own), request)
}

function makerOf(own: OwnDesktop): Maker {
  return {
    name: own.name,
    recipe,
    own: ownParts(own),
    gather: async (work, say) => {
      if (!isRoot())
        throw new Error(
          'the desktop image needs root, since its files belong to several users; run npm run image as root',
        )
      await ensurePackages({ say, desktop: true })
      const root = join(work, 'root')
      const debs = await fetchDebs(kernelFor('screens'), ['busybox-static'], join(work, 'debs'), say)
      await install([...packages, browserOf(), ...own.packages], root, say)
      const versions = [...debs.map((deb): [string, string] => [deb.name, deb.version]), ...(await installed(root))]
      return { packages: Object.fromEntries(versions), make: (out) => make(own, work, out, debs, say) }
    },
  }
}

function browserOf(): string {
  const { id } = distribution()
  return browsers[id] ?? 'firefox-esr'
}

/** Installs every package with its dependencies into a folder, as the distribution's own tool does. */
async function install(packages: string[], root: string, say: Say): Promise<void> {
  const options = [
    ...['Apt::Install-Recommends "false"', 'APT::Sandbox::User "root"'].map((option) => `--aptopt=${option}`),
    ...left.map((each) => `--dpkgopt=path-exclude=/usr/share/${each}/*`),
    '--dpkgopt=force-unsafe-io',
  ]
  const args = ['--mode=root', '--variant=minbase', '--format=directory', ...options, `--include=${packages.join()}`]
  await run('mmdebstrap', [...args, distribution().codename, root, ...sources()], {
    onStderr: (text) => {
      for (const [, line] of text.matchAll(/^I: (?!success)(.+)\n/gm)) say(`  ${line}`)
    },
  })
}

/** The guest uses this machine's package sources. Without such a list the tool uses its own. */
function sources(): string[] {
  const lists = ['sources.list.d/debian.sources', 'sources.list.d/ubuntu.sources', 'sources.list']
  const files = lists.map((list) => `/etc/apt/${list}`).filter(existsSync)
  return files.filter((file) => /^(deb|Types:)/m.test(readFileSync(file, 'utf8'))).slice(0, 1)
}

async function installed(root: string): Promise<[string, string][]> {
  const list = await run('dpkg-query', ['--admindir', join(root, 'var/lib/dpkg'), '-Wf', `\${Package} \${Version}\n`])
  return list
    .trim()
    .split('\n')
    .map((line) => line.split(' ') as [string, string])
}

async function make(own: OwnDesktop, work: string, out: string, debs: Deb[], say: Say): Promise<Facts> {
  const tree = systemTree(join(work, 'kernel'))
  await Promise.all(debs.map((deb) => unpack(deb, tree)))
  const root = join(work, 'root')
  const version = await placeModules(join(tree, 'usr/lib/modules'), root)
  copyFileSync(join(tree, 'boot', `vmlinuz-${version}`), join(out, 'vmlinuz'))
  const boot = loadOrder(join(tree, 'usr/lib/modules', version), bootModules)
  await writeInitrd(join(work, 'initrd'), join(tree, 'usr/bin/busybox'), boot, join(out, 'initrd'))
  await configure(root, own)
  say('  writing the disk')
  await writeDisk(root, join(work, 'disk.raw'), join(out, 'disk.qcow2'))
  return {
    ...{ cmdline, clipboard: true, keyboard_layout: own.keyboard },
    ...{ ready, kernel_version: version, diskMiB },
  }
}

/** Copies the modules into one folder, with the index by which the guest finds them. */
async function placeModules(from: string, root: string): Promise<string> {
  const [version] = globSync('*', { cwd: from }) as [string]
  const to = join(root, 'usr/lib/modules', version)
  mkdirSync(join(to, 'kernel'), { recursive: true })
  for (const { name, bytes } of loadOrder(join(from, version), modules)) {
    writeFileSync(join(to, 'kernel', `${name}.ko`), bytes)
  }
  for (const index of ['modules.builtin', 'modules.builtin.modinfo', 'modules.order']) {
    copyFileSync(join(from, version, index), join(to, index))
  }
  await run('chroot', [root, 'depmod', version])
  return version
}

/** Adds our files, the user's own and the user, and sets what starts. Removes what two desktops must not share. */
async function configure(root: string, { files, keyboard }: OwnDesktop): Promise<void> {
  cpSync(join(here, 'desktop/rootfs'), root, { recursive: true })
  writeFileSync(join(root, 'etc/X11/xorg.conf.d/20-keyboard.conf'), keyboardConf(keyboard))
  for (const file of globSync('etc/ssh/ssh_host_*', { cwd: root })) rmSync(join(root, file))
  await run('chroot', [
    root,
    'useradd',
    '--create-home',
    '--shell',
    '/bin/bash',
    '--groups',
    'sudo,video,input',
    'user',
  ])
  if (existsSync(join(root, 'usr/bin/firefox-esr'))) await makeBrowserProfile(root)
  if (files) await overlay(files, root)
  await run('chroot', [root, 'systemctl', '--quiet', 'mask', ...unused])
  await run('chroot', [root, 'systemctl', '--quiet', 'enable', ...used])
  writeFileSync(join(root, 'etc/machine-id'), '')
  for (const folder of left) rmSync(join(root, 'usr/share', folder), { recursive: true, force: true })
  for (const file of unwanted) rmSync(join(root, file), { force: true })
}

/** The first start of a browser compiles its scripts, which takes an emulated guest a minute. So it happens here. */
async function makeBrowserProfile(root: string): Promise<void> {
  const namespaces = ['--mount', '--net', '--ipc', '--pid', '--fork', '--kill-child']
  await run('unshare', [...namespaces, join(here, 'desktop/make-browser-profile'), root])
}

/** Copies a folder over the root as root's files, except the home of "user". Folders that exist keep their mode. */
async function overlay(files: string, root: string): Promise<void> {
  const unpack = `tar -x --keep-directory-symlink --no-overwrite-dir --no-same-owner -C ${quote(root)}`
  await run('/bin/sh', ['-c', `tar -c --owner=0 --group=0 -C ${quote(files)} . | ${unpack}`])
  await run('chroot', [root, 'chown', '--recursive', '--no-dereference', 'user:user', '/home/user'])
}

/** An ext4 without a partition table. The guest grows it to the size of the desktop's disk at its first boot. */
async function writeDisk(root: string, raw: string, file: string): Promise<void> {
  const features = ['-E', 'lazy_itable_init=0', '-O', '^metadata_csum', '-m', '0']
  await run('mke2fs', ['-q', '-t', 'ext4', '-L', 'desktop', '-d', root, ...features, raw, `${diskMiB}M`])
  await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', raw, file])
}
