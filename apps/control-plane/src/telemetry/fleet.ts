// Metrics of the hosts: how many in which state, and what they have and have reserved. Read from the database when they are
// scraped, at most every few seconds. Every replica shows the same numbers.
import type { HostJson } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { Gauge, type Registry } from 'prom-client'
import { Refreshed } from './refreshed.ts'

export interface FleetOptions {
  registry: Registry
  list: () => Promise<HostJson[]>
  log: Log
}

const states = ['active', 'unreachable', 'lost'] as const
const maxAgeMs = 10_000
const MiB = 1_048_576
const GiB = 1_073_741_824

export function fleetMetrics({ registry, list, log }: FleetOptions): Refreshed {
  const gauges = makeGauges(registry)
  const read = async () => {
    show(gauges, await list())
    gauges.readAt.setToCurrentTime()
  }
  return new Refreshed({ what: 'hosts', maxAgeMs, read, log })
}

function show(gauges: ReturnType<typeof makeGauges>, hosts: HostJson[]): void {
  const { hosts: count, ailing, withheld, quarantined, clocks, desktops, vcpus, memory, disk } = gauges
  const present = hosts.filter(({ state }) => state !== 'removed')
  const usable = present.filter(({ state }) => state === 'active')
  const sum = (of: (host: HostJson) => number | undefined) => usable.reduce((total, host) => total + (of(host) ?? 0), 0)
  for (const state of states) count.set({ state }, present.filter((host) => host.state === state).length)
  ailing.set(present.filter((host) => host.ailment !== null).length)
  withheld.set(present.filter((host) => host.withheld).length)
  clocks.set(Math.max(0, ...usable.map((host) => Math.abs(host.clock_offset_secs ?? 0))))
  quarantined.set(present.filter((host) => host.quarantine).length)
  desktops.set(present.reduce((total, host) => total + host.desktops, 0))
  vcpus.set(
    { amount: 'total' },
    sum(({ capacity }) => capacity?.vcpus),
  )
  vcpus.set(
    { amount: 'reserved' },
    sum(({ reserved }) => reserved.vcpus),
  )
  memory.set({ amount: 'total' }, sum(({ capacity }) => capacity?.memory_mib) * MiB)
  memory.set({ amount: 'reserved' }, sum(({ reserved }) => reserved.memory_mib) * MiB)
  disk.set({ amount: 'total' }, sum(({ capacity }) => capacity?.disk_gib) * GiB)
  disk.set({ amount: 'reserved' }, sum(({ reserved }) => reserved.disk_gib) * GiB)
}

function makeGauges(registry: Registry) {
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const labelled = <L extends string>(name: string, help: string, label: L) =>
    new Gauge<L>({ name, help, labelNames: [label], registers })
  return {
    hosts: labelled('dormouse_hosts', 'Hosts that were not removed, by state', 'state'),
    ailing: gauge('dormouse_hosts_unhealthy', 'Hosts that report a problem'),
    withheld: gauge('dormouse_hosts_withheld', 'Hosts that get no commands until an operator trusts them'),
    quarantined: gauge('dormouse_hosts_quarantined', 'Hosts that new desktops avoid because wakes there keep failing'),
    clocks: gauge(
      'dormouse_hosts_clock_offset_seconds',
      'The largest difference between the clock of an active host and a replica’s',
    ),
    desktops: gauge('dormouse_host_desktops', 'Desktops that have a reservation on a host'),
    vcpus: labelled('dormouse_host_vcpus', 'Virtual processors of all active hosts', 'amount'),
    memory: labelled('dormouse_host_memory_bytes', 'Memory that all active hosts offer', 'amount'),
    disk: labelled('dormouse_host_disk_bytes', 'Disk that all active hosts offer', 'amount'),
    readAt: gauge('dormouse_hosts_read_timestamp_seconds', 'When the numbers of hosts were last read'),
  }
}
