// How many operations may be in flight on each host, from what the hosts report. Knows no operation.
import type { HostFacts } from '@dormouse/contract'

/** The limit of a host that has reported none to this replica. */
const unheard = 8
/** Whatever a host reports. */
const [least, most] = [4, 64]

export class WorkLimits {
  /** The setting; undefined derives it from what the host reports. */
  readonly #perHost: number | undefined
  readonly #heard = new Map<string, number>()

  constructor(perHost: number | undefined) {
    this.#perHost = perHost
  }

  /** Twice what the host boots, restores and saves at once: a guest that has booted still needs time until it answers. */
  heard(hostId: string, { workAtOnce }: Pick<HostFacts, 'workAtOnce'>): void {
    this.#heard.set(hostId, Math.min(most, Math.max(least, 2 * workAtOnce)))
  }

  of(hostId: string): number {
    return this.#perHost ?? this.#heard.get(hostId) ?? unheard
  }
}
