// Metrics of the hosts: how many in which state, and what they have and have reserved. Read from the database when they are
// scraped, at most every few seconds. Every replica shows the same numbers.
import type { HostJson } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { Gauge, type Registry } from 'prom-client'

export interface FleetOptions {
  registry: Registry
  list: () => Promise<HostJson[]>
  log: Log
}

const states = ['active', 'unreachable', 'lost'] as const
const maxAgeMs = 10_000
/** Monitoring must not be delayed by a slow database. */
const waitMs = 1_000
const MiB = 1_048_576
const GiB = 1_073_741_824

export class Fleet {
  readonly #options: FleetOptions
  readonly #gauges: ReturnType<typeof makeGauges>
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(options: FleetOptions) {
    this.#options = options
    this.#gauges = makeGauges(options.registry)
  }

  /** Reads the hosts if that was long ago. While the database is slow or unavailable, the numbers stay as they are. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#readAt < maxAgeMs) return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, waitMs)
    await Promise.race([this.#reading, late.promise])
    clearTimeout(timer)
  }

  async #read(): Promise<void> {
    try {
      this.#show(await this.#options.list())
      this.#readAt = performance.now()
      this.#gauges.readAt.setToCurrentTime()
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the hosts could not be read for the metrics')
    }
  }

  #show(hosts: HostJson[]): void {
    const { hosts: count, ailing, withheld, quarantined, desktops, vcpus, memory, disk } = this.#gauges
    const present = hosts.filter(({ state }) => state !== 'removed')
    const usable = present.filter(({ state }) => state === 'active')
    const sum = (of: (host: HostJson) => number | undefined) =>
      usable.reduce((total, host) => total + (of(host) ?? 0), 0)
    for (const state of states) count.set({ state }, present.filter((host) => host.state === state).length)
    ailing.set(present.filter((host) => host.ailment !== null).length)
    withheld.set(present.filter((host) => host.withheld).length)
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
    desktops: gauge('dormouse_host_desktops', 'Desktops that have a reservation on a host'),
    vcpus: labelled('dormouse_host_vcpus', 'Virtual processors of all active hosts', 'amount'),
    memory: labelled('dormouse_host_memory_bytes', 'Memory that all active hosts offer', 'amount'),
    disk: labelled('dormouse_host_disk_bytes', 'Disk that all active hosts offer', 'amount'),
    readAt: gauge('dormouse_hosts_read_timestamp_seconds', 'When the numbers of hosts were last read'),
  }
}
