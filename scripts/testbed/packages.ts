// The distribution's packages that real hosts and the tests need. As root on Debian or Ubuntu it installs what is missing;
// otherwise it throws an error with the command to run.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isRoot } from './namespaces.ts'
import { finish, type RunOptions, type Say } from './processes.ts'

type Need = { files: string[]; packages: string[]; why: string }

const bin = ['/usr/bin', '/usr/sbin', '/bin', '/sbin']
const program = (name: string) => bin.map((folder) => `${folder}/${name}`)
const drivers = '/usr/lib/x86_64-linux-gnu/libvirt/connection-driver'

/** A need is met if one of its files exists. Those of its packages are installed that the distribution has. */
const needs: Need[] = [
  { files: program('qemu-system-x86_64'), packages: ['qemu-system-x86'], why: 'runs the desktops' },
  { files: program('qemu-img'), packages: ['qemu-utils'], why: 'makes their disks' },
  { files: program('libvirtd'), packages: ['libvirt-daemon'], why: 'manages QEMU' },
  {
    files: [`${drivers}/libvirt_driver_qemu.so`],
    packages: ['libvirt-daemon-driver-qemu'],
    why: 'its driver for QEMU',
  },
  {
    files: [`${drivers}/libvirt_driver_storage.so`],
    packages: ['libvirt-daemon-driver-storage'],
    why: 'its driver for disks',
  },
  { files: program('virsh'), packages: ['libvirt-clients'], why: 'inspects libvirt from the command line' },
  { files: program('busybox'), packages: ['busybox-static'], why: 'small tools for hosts and guests' },
  { files: program('debugfs'), packages: ['e2fsprogs'], why: "makes the guest's file system" },
]

/** Needed by the tests, and by a run of several hosts. */
const networkNeed: Need = { files: program('ip'), packages: ['iproute2'], why: 'makes networks between hosts' }

/** Needed by the tests only. */
const testNeeds: Need[] = [
  {
    files: ['chromium', 'google-chrome'].flatMap(program),
    packages: ['chromium'],
    why: 'the browser of the tests',
  },
  { files: program('dnsmasq'), packages: ['dnsmasq-base'], why: 'DHCP for guests, for the tests' },
  { files: program('ebtables'), packages: ['iptables'], why: 'binds guests to their addresses, for the tests' },
  { files: program('nft'), packages: ['nftables'], why: 'the firewall of their network, for the tests' },
  networkNeed,
  { files: program('haproxy'), packages: ['haproxy'], why: 'stands in front of two control planes, for the tests' },
  { files: program('openssl'), packages: ['openssl'], why: 'makes certificates, for the tests' },
  {
    files: program('pg_dump'),
    packages: ['postgresql', 'postgresql-client'],
    why: 'writes and restores a backup, for the tests',
  },
  { files: program('restic'), packages: ['restic'], why: 'copies desktops into vaults, for the tests' },
  { files: program('strip'), packages: ['binutils'], why: 'makes Debian packages, for the tests' },
  { files: program('perl'), packages: ['perl-base'], why: 'sends hostile packets, for the tests' },
  {
    files: ['/usr/share/libvirt/nwfilter/clean-traffic.xml'],
    packages: ['libvirt-daemon-config-nwfilter'],
    why: 'the network filters, for the tests',
  },
  { files: program('prometheus'), packages: ['prometheus'], why: 'reads the metrics, for the tests' },
  { files: program('sshd'), packages: ['openssh-server'], why: 'a machine to install a host on, for the tests' },
  { files: program('strace'), packages: ['strace'], why: 'shows the order of writes to disk, for the tests' },
]

/** Needed by the desktop image only. */
const bootstrap: Need = {
  files: program('mmdebstrap'),
  packages: ['mmdebstrap'],
  why: 'installs packages into a folder, for the desktop image',
}

/** Needed by the test of a whole installation only. */
const containerNeeds: Need[] = [
  bootstrap,
  { files: program('systemd-nspawn'), packages: ['systemd-container'], why: 'boots a Debian, for the test' },
]

const policy = '/usr/sbin/policy-rc.d'
const policyText = '#!/bin/sh\n# Written by Dormouse while it installs packages, so that no daemon starts.\nexit 101\n'

/** The needs that are not met. */
export function missingNeeds(exists: (file: string) => boolean = existsSync, wanted = needs): Need[] {
  return wanted.filter(({ files }) => !files.some(exists))
}

type Purpose = { say: Say; tests?: boolean; desktop?: boolean; networks?: boolean; containers?: boolean | undefined }

/** Installs what is missing, or throws with the command to run. */
export async function ensurePackages({
  say,
  tests = false,
  desktop = false,
  networks = false,
  containers = false,
}: Purpose): Promise<void> {
  const wanted = [
    ...needs,
    ...(tests ? testNeeds : []),
    ...(networks ? [networkNeed] : []),
    ...(desktop ? [bootstrap] : []),
    ...(containers ? containerNeeds : []),
  ]
  const missing = missingNeeds(existsSync, wanted)
  if (missing.length === 0) return
  const names = missing.flatMap(({ packages }) => packages)
  if (!hasApt())
    throw new Error(
      `${elsewhere}\nMissing: ${missing.map(({ packages, why }) => `${packages[0]} (${why})`).join(', ')}`,
    )
  if (!isRoot()) throw new Error(`packages are missing; install them as root:\n\n  ${byHand(names)}\n\n${without}`)
  say(`Installing ${missing.map(({ packages, why }) => `${packages.join(' ')} (${why})`).join(', ')}`)
  await withoutDaemons(() => install(names, wanted, say))
  const still = missingNeeds(existsSync, wanted)
  if (still.length > 0)
    throw new Error(`still missing after the installation: ${still.map(({ files }) => files[0]).join(', ')}`)
}

const without = 'Simulated hosts need no packages: npm start -- --simulated 3'
const elsewhere = `real desktops need Debian 12 or later, or a current Ubuntu, on x86-64: the guest image is made of their packages
${without}`

function byHand(names: string[]): string {
  return `apt-get update && apt-get install --no-install-recommends ${names.join(' ')}`
}

function hasApt(): boolean {
  const id = /^ID=(.*)$/m.exec(existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '')?.[1]
  return process.arch === 'x64' && (id === 'debian' || id === 'ubuntu')
}

/** Tries apt's present package lists first: updating them takes longest. */
async function install(names: string[], wanted: Need[], say: Say): Promise<void> {
  const before = await known(names)
  if (before.length > 0 && (await aptInstall(before)).code === 0 && missingNeeds(existsSync, wanted).length === 0)
    return
  say('Updating the package lists')
  const updated = await apt(['update'])
  const { code, stderr, stdout } = await aptInstall(await known(names))
  if (code === 0) return
  const why = [updated.code === 0 ? '' : updated.stderr, stderr || stdout].join('\n').trim().slice(-2000)
  throw new Error(`apt-get could not install the packages:\n${why}\n\nInstall them yourself:\n\n  ${byHand(names)}\n`)
}

/** Distributions split their packages differently: only those that this one has. */
async function known(names: string[]): Promise<string[]> {
  const answers = await Promise.all(names.map((name) => finish('apt-cache', ['show', '--quiet=2', name])))
  return names.filter((_, i) => answers[i]!.code === 0 && answers[i]!.stdout !== '')
}

function aptInstall(names: string[]) {
  return apt(['install', '--yes', '--no-install-recommends', '-o', 'Dpkg::Options::=--force-unsafe-io', ...names])
}

/** Waits for another apt instead of failing, and never prompts. */
function apt(args: string[]) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', NEEDRESTART_SUSPEND: '1', LC_ALL: 'C' }
  const options: RunOptions = { env }
  return finish(
    'apt-get',
    ['--quiet=2', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Languages=none', ...args],
    options,
  )
}

/** Unless the machine has its own policy on starting daemons, none starts while we install. */
async function withoutDaemons(work: () => Promise<void>): Promise<void> {
  if (existsSync(policy)) return work()
  writeFileSync(policy, policyText, { mode: 0o755 })
  try {
    await work()
  } finally {
    rmSync(policy, { force: true })
  }
}
