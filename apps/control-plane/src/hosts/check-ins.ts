// What this replica answers to a host's hello and to each of its heartbeats. Knows no desktop.
import type { HeartbeatAnswer, HostFacts, Welcome } from '@dormouse/contract'
import { isDatabaseUnavailable, type Pool } from '../db/pool.ts'
import { liveReplicas, read } from '../leadership/store.ts'
import type { Hosts } from './service.ts'
import type { WorkLimits } from './work-limits.ts'

export interface CheckInsOptions {
  pool: Pool
  hosts: Hosts
  workLimits: WorkLimits
  replicaId: string
  heartbeatMs: number
}

/** How old the list of replicas may be that a host gets. Every heartbeat of every host needs it. */
const replicasForMs = 250

export class CheckIns {
  readonly #options: CheckInsOptions
  #replicas: Promise<string[]> | undefined

  constructor(options: CheckInsOptions) {
    this.#options = options
  }

  /** Notes what the host reports of itself, and returns the present epoch and which replicas to link to. */
  async hello(hostId: string, facts: HostFacts): Promise<Welcome> {
    const { pool, hosts, workLimits, replicaId, heartbeatMs } = this.#options
    workLimits.heard(hostId, facts)
    await hosts.heard(hostId, facts)
    const { epoch } = await read(pool)
    return { hostId, replicaId, epoch, heartbeatMs, replicas: await this.#liveReplicas() }
  }

  /** Notes what the host reports. While the database is unavailable it keeps the link: guests are reached over the same link. */
  async heartbeat(hostId: string, facts: HostFacts): Promise<Pick<HeartbeatAnswer, 'replicas'>> {
    const { hosts, workLimits } = this.#options
    workLimits.heard(hostId, facts)
    try {
      await hosts.heard(hostId, facts)
      return { replicas: await this.#liveReplicas() }
    } catch (error) {
      if (!isDatabaseUnavailable(error)) throw error
      return { replicas: [] }
    }
  }

  #liveReplicas(): Promise<string[]> {
    if (this.#replicas) return this.#replicas
    const forget = () => {
      this.#replicas = undefined
    }
    const reading = liveReplicas(this.#options.pool).then((replicas) => replicas.map(({ url }) => url))
    this.#replicas = reading
    reading.then(() => setTimeout(forget, replicasForMs).unref(), forget)
    return reading
  }
}
