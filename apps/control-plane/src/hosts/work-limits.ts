// How many operations may be in flight on each host, from what the hosts report. Knows no operation.
import type { HostFacts } from '@dormouse/contract'

/** Of a host that this replica has not heard. */
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

  /**
   * Twice what the host boots, restores and saves at once: a guest that has booted still needs time until it answers. Agents
   * of the release before report only their processors, and do two at once for each.
   */
  heard(hostId: string, { workAtOnce, processors = 1 }: Pick<HostFacts, 'workAtOnce' | 'processors'>): void {
    const atOnce = 2 * (workAtOnce ?? Math.floor(2 * processors))
    this.#heard.set(hostId, Math.min(most, Math.max(least, atOnce)))
  }

  of(hostId: string): number {
    return this.#perHost ?? this.#heard.get(hostId) ?? unheard
  }
}
