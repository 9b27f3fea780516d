// Judges a machine before anything is changed on it. Pure: the facts come from facts.ts and reach.ts.
import type { HostJson } from '@dormouse/client'
import type { Facts } from './facts.ts'
import type { Reach } from './reach.ts'

/** `failed` prevents a working host; `warning` does not. */
export interface Check {
  name: string
  result: 'ok' | 'warning' | 'failed'
  found: string
  /** What to do, unless it is ok. */
  next?: string
}

interface Given {
  facts: Facts
  reach: readonly Reach[]
  /** The hosts that the control plane has. */
  hosts: readonly HostJson[]
  /** The name that the host would have. Undefined: its own. */
  name?: string | undefined
  /** Nothing new is enrolled: the agent must be there already. */
  upgrade?: boolean
}

const minima = { diskMiB: 4_096, memoryMiB: 1_024, libvirt: 8, qemu: 6 }
const ample = { diskMiB: 51_200, memoryMiB: 4_096 }
const clockWarnSecs = 2
const clockFailSecs = 3_600

/** All checks, in the order of the table. */
export function judge(given: Given): Check[] {
  const { facts } = given
  return [
    distribution(facts),
    systemd(facts),
    processors(facts),
    kvm(facts),
    version(facts, 'libvirt', 'libvirt-daemon-system', minima.libvirt),
    version(facts, 'QEMU', 'qemu-system-x86', minima.qemu),
    amount('disk', 'free in /var/lib', facts.diskFreeMiB, minima.diskMiB, ample.diskMiB),
    amount('memory', 'in all', facts.memoryMiB, minima.memoryMiB, ample.memoryMiB),
    clock(facts),
    ...given.reach.map(reachable),
    identity(given),
  ]
}

/** Whether the host could not work. */
export const isBlocked = (checks: readonly Check[]): boolean => checks.some(({ result }) => result === 'failed')

const ok = (name: string, found: string): Check => ({ name, result: 'ok', found })
const warning = (name: string, found: string, next: string): Check => ({ name, result: 'warning', found, next })
const failed = (name: string, found: string, next: string): Check => ({ name, result: 'failed', found, next })

function distribution({ distribution: { id, version, name }, machine }: Facts): Check {
  const [year, month] = version.split('.').map(Number)
  const isUbuntuLts = id === 'ubuntu' && year! >= 22 && year! % 2 === 0 && month === 4
  if (!(id === 'debian' && (version === '12' || version === '13')) && !isUbuntuLts)
    return failed('distribution', name, 'use Debian 12 or 13, or an LTS release of Ubuntu from 22.04')
  if (machine !== 'x86_64') return failed('distribution', `${name}, ${machine}`, 'use a machine with x86-64 processors')
  return ok('distribution', name)
}

const systemd = ({ systemd }: Facts): Check =>
  systemd
    ? ok('systemd', 'runs')
    : failed('systemd', 'does not run', 'use a machine that systemd has started; docs/runbooks/install-a-host.md')

const processors = ({ processors }: Facts): Check => ok('processors', String(processors))

function kvm({ kvm }: Facts): Check {
  if (kvm === 'usable') return ok('KVM', 'usable')
  const found = kvm === 'no flag' ? 'the processors offer no virtualisation' : '/dev/kvm cannot be opened'
  return warning('KVM', found, 'guests are emulated, and slow; switch virtualisation on in the firmware')
}

function version({ packages }: Facts, name: string, packageName: string, least: number): Check {
  const { installed, candidate } = packages[packageName] ?? {}
  const found = installed ?? candidate
  if (!found) return warning(name, 'apt does not know it yet', 'the package lists are updated before the installation')
  const text = installed ? found : `${found}, to be installed`
  const major = Number(/^(?:\d+:)?(\d+)/.exec(found)?.[1])
  return major >= least ? ok(name, text) : failed(name, text, `use a release with ${name} ${least} or later`)
}

function amount(name: string, where: string, mib: number, least: number, enough: number): Check {
  const found = `${(mib / 1024).toFixed(1)} GiB ${where}`
  if (mib < least) return failed(name, found, `at least ${least / 1024} GiB are needed`)
  return mib < enough ? warning(name, found, 'enough for a few desktops only') : ok(name, found)
}

function clock({ clock: { offsetSecs, errorSecs } }: Facts): Check {
  const off = Math.abs(offsetSecs)
  const found = `${offsetSecs < 0 ? '-' : '+'}${off.toFixed(1)} s, ± ${errorSecs.toFixed(1)} s, beside this machine`
  const next = 'set the clock, for example with `apt-get install systemd-timesyncd`'
  if (!(off < clockFailSecs)) return failed('clock', found, next)
  return off - errorSecs > clockWarnSecs ? warning('clock', found, next) : ok('clock', found)
}

function reachable({ url, result, found, next }: Reach): Check {
  return { name: `to ${url}`, result, found, ...(next && { next }) }
}

function identity({ facts: { agent }, hosts, name, upgrade }: Given): Check {
  const own = hosts.find(({ id }) => id === agent.hostId)
  if (own && own.state !== 'removed') return ok('enrolment', `enrolled as ${own.name}, ${own.id}`)
  if (agent.hostId)
    return failed(
      'enrolment',
      `its identity ${agent.hostId} is ${own ? 'removed' : 'not known'} here`,
      'check DORMOUSE_URL; to install it as a new host, run this with --uninstall first',
    )
  if (upgrade) return failed('enrolment', 'no host is enrolled there', 'run this without --upgrade')
  const namesake = hosts.find((host) => host.name === name && host.state !== 'removed')
  if (namesake) return failed('enrolment', `another host is called ${name}: ${namesake.id}`, 'give it another --name')
  return ok('enrolment', agent.hasSettings ? 'not finished; it is continued' : 'new')
}
