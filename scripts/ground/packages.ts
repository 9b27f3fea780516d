// The distribution's packages that the ground needs: which are missing, and as root on Debian or Ubuntu how they come here.
// Knows nothing of what is done with them. Elsewhere it says what to type, and does nothing.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isRoot } from './namespaces.ts'
import { finish, type RunOptions, type Say } from './processes.ts'

type Need = { files: string[]; packages: string[]; why: string }

const bin = ['/usr/bin', '/usr/sbin', '/bin', '/sbin']
const program = (name: string) => bin.map((folder) => `${folder}/${name}`)
const drivers = '/usr/lib/x86_64-linux-gnu/libvirt/connection-driver'

/** One line for each thing: it is there when one of the files is; of the packages those that the distribution has. */
const needs: Need[] = [
  { files: program('qemu-system-x86_64'), packages: ['qemu-system-x86'], why: 'runs the desktops' },
  { files: program('qemu-img'), packages: ['qemu-utils'], why: 'makes their disks' },
  { files: program('libvirtd'), packages: ['libvirt-daemon'], why: 'looks after QEMU' },
  { files: [`${drivers}/libvirt_driver_qemu.so`], packages: ['libvirt-daemon-driver-qemu'], why: 'its part for QEMU' },
  {
    files: [`${drivers}/libvirt_driver_storage.so`],
    packages: ['libvirt-daemon-driver-storage'],
    why: 'its part for disks',
  },
  { files: program('virsh'), packages: ['libvirt-clients'], why: 'shows what libvirt does, for you' },
  { files: program('busybox'), packages: ['busybox-static'], why: 'small tools, for hosts and guests' },
  { files: program('debugfs'), packages: ['e2fsprogs'], why: "makes the guest's file system" },
]

/** For the tests alone. */
const testNeeds: Need[] = [
  {
    files: ['chromium', 'google-chrome'].flatMap(program),
    packages: ['chromium'],
    why: 'opens desktops in a browser, for the tests',
  },
  { files: program('dnsmasq'), packages: ['dnsmasq-base'], why: 'gives guests their addresses, for the tests' },
  { files: program('ebtables'), packages: ['iptables'], why: 'holds guests to their addresses, for the tests' },
  { files: program('nft'), packages: ['nftables'], why: 'closes their network, for the tests' },
  { files: program('ip'), packages: ['iproute2'], why: 'makes networks to try that on, for the tests' },
  { files: program('perl'), packages: ['perl-base'], why: 'sends what a hostile guest sends, for the tests' },
  {
    files: ['/usr/share/libvirt/nwfilter/clean-traffic.xml'],
    packages: ['libvirt-daemon-config-nwfilter'],
    why: 'says by which rules, for the tests',
  },
  { files: program('strace'), packages: ['strace'], why: 'shows in which order files reach the disk, for the tests' },
]

/** For the desktop image alone. */
const bootstrap: Need = {
  files: program('mmdebstrap'),
  packages: ['mmdebstrap'],
  why: 'installs packages into a folder, for the desktop image',
}

const policy = '/usr/sbin/policy-rc.d'
const policyText = '#!/bin/sh\n# Made by Dormouse while it installs packages: no daemon is started by that.\nexit 101\n'

/** Whether something of the ground is not installed. */
export function missingNeeds(exists: (file: string) => boolean = existsSync, wanted = needs): Need[] {
  return wanted.filter(({ files }) => !files.some(exists))
}

type Purpose = { say: Say; tests?: boolean; desktop?: boolean }

/** Installs what is missing, or throws with the command that does. */
export async function ensurePackages({ say, tests = false, desktop = false }: Purpose): Promise<void> {
  const wanted = [...needs, ...(tests ? testNeeds : []), ...(desktop ? [bootstrap] : [])]
  const missing = missingNeeds(existsSync, wanted)
  if (missing.length === 0) return
  const names = missing.flatMap(({ packages }) => packages)
  if (!hasApt())
    throw new Error(
      `${elsewhere}\nMissing: ${missing.map(({ packages, why }) => `${packages[0]} (${why})`).join(', ')}`,
    )
  if (!isRoot()) throw new Error(`Packages are missing. As root:\n\n  ${byHand(names)}\n\n${without}`)
  say(`Installing ${missing.map(({ packages, why }) => `${packages.join(' ')} (${why})`).join(', ')}`)
  await withoutDaemons(() => install(names, wanted, say))
  const still = missingNeeds(existsSync, wanted)
  if (still.length > 0)
    throw new Error(`After the installation these are still missing: ${still.map(({ files }) => files[0]).join(', ')}`)
}

const without = 'Simulated hosts need none of them: npm start -- --simulated 3'
const elsewhere = `Real desktops need Debian 12 or later, or a current Ubuntu, on x86-64: the guest image is made of their packages.
${without}`

function byHand(names: string[]): string {
  return `apt-get update && apt-get install --no-install-recommends ${names.join(' ')}`
}

function hasApt(): boolean {
  const id = /^ID=(.*)$/m.exec(existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '')?.[1]
  return process.arch === 'x64' && (id === 'debian' || id === 'ubuntu')
}

/** What apt knows already may be enough; the lists are only fetched where it is not, since that takes longest. */
async function install(names: string[], wanted: Need[], say: Say): Promise<void> {
  const before = await known(names)
  if (before.length > 0 && (await aptInstall(before)).code === 0 && missingNeeds(existsSync, wanted).length === 0)
    return
  say('Fetching the package lists')
  const updated = await apt(['update'])
  const { code, stderr, stdout } = await aptInstall(await known(names))
  if (code === 0) return
  const why = [updated.code === 0 ? '' : updated.stderr, stderr || stdout].join('\n').trim().slice(-2000)
  throw new Error(`apt-get could not install the packages:\n${why}\n\nBy hand:\n\n  ${byHand(names)}\n`)
}

/** Some distributions have a part in a package of its own that others have in a larger one. */
async function known(names: string[]): Promise<string[]> {
  const answers = await Promise.all(names.map((name) => finish('apt-cache', ['show', '--quiet=2', name])))
  return names.filter((_, i) => answers[i]!.code === 0 && answers[i]!.stdout !== '')
}

function aptInstall(names: string[]) {
  return apt(['install', '--yes', '--no-install-recommends', '-o', 'Dpkg::Options::=--force-unsafe-io', ...names])
}

/** Waits for another apt rather than failing beside it, and asks nothing. */
function apt(args: string[]) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', NEEDRESTART_SUSPEND: '1', LC_ALL: 'C' }
  const options: RunOptions = { env }
  return finish(
    'apt-get',
    ['--quiet=2', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Languages=none', ...args],
    options,
  )
}

/** Where the machine has no policy of its own on starting daemons, one says no while we install. */
async function withoutDaemons(work: () => Promise<void>): Promise<void> {
  if (existsSync(policy)) return work()
  writeFileSync(policy, policyText, { mode: 0o755 })
  try {
    await work()
  } finally {
    rmSync(policy, { force: true })
  }
}
