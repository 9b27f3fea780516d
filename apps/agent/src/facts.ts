// What this host reports about itself. A hypervisor that hangs never delays a heartbeat: the last known facts are used.
import type { HostFacts } from '@dormouse/contract'
import { release } from '@dormouse/process'
import type { Driver } from './driver/driver.ts'

const timeoutMs = 1_000
/** The first time, libvirt probes what QEMU can do, which takes it a while. */
const firstTimeoutMs = 10_000
/** A busy host answers late. While its last answer is this recent, that is no problem. */
const recentMs = 10_000

/** What changes without the hypervisor. */
type OwnFacts = Pick<
  HostFacts,
  'imageDigests' | 'fetches' | 'warm' | 'templates' | 'upgradable' | 'clockOffsetMs' | 'vaults'
>

export class Facts {
  readonly #driver: Driver
  readonly #problem: () => string | null
  readonly #own: () => Promise<OwnFacts>
  #known: HostFacts
  #request: Promise<HostFacts> | undefined
  #asked = false
  #answeredAt = -Infinity

  /**
   * `problem` returns any problem of the host besides its hypervisor, `own` returns its facts about images besides their names,
   * about warm copies, upgrades and its clock; `given` is from the configuration.
   */
  constructor(
    driver: Driver,
    problem: () => string | null,
    given: Pick<HostFacts, 'workAtOnce' | 'moveAddress'>,
    own: () => Promise<OwnFacts>,
  ) {
    this.#driver = driver
    this.#problem = problem
    this.#own = own
    this.#known = {
      agentVersion: release.version,
      commit: release.commit,
      driver: driver.kind,
      kvm: false,
      versions: {},
      processors: 0,
      capacity: { memoryMiB: 0, diskGiB: 0 },
      ...given,
      freeDiskGiB: 0,
      images: [],
      imageDigests: [],
      fetches: [],
      warm: { copies: 0, memoryMiB: 0, maxMiB: 0 },
      ailment: 'the hypervisor has not answered yet',
    }
  }

  /** The facts now. If the hypervisor does not answer within 1 s (the first time: 10 s), the last known ones; with a problem if they are old. */
  async current(): Promise<HostFacts> {
    this.#request ??= this.#ask()
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, this.#asked ? timeoutMs : firstTimeoutMs)
    const answer = await Promise.race([this.#request, late.promise])
    clearTimeout(timer)
    this.#asked = true
    const silent = performance.now() - this.#answeredAt > recentMs ? 'the hypervisor does not answer' : null
    const facts = answer ?? { ...this.#known, ailment: this.#known.ailment ?? silent }
    return { ...facts, ailment: facts.ailment ?? this.#problem() }
  }

  async #ask(): Promise<HostFacts> {
    try {
      this.#known = { ...this.#known, ...(await this.#driver.facts()), ...(await this.#own()) }
      this.#answeredAt = performance.now()
      return this.#known
    } catch (error) {
      return {
        ...this.#known,
        ailment: `the hypervisor does not answer: ${error instanceof Error ? error.message : error}`,
      }
    } finally {
      this.#request = undefined
    }
  }
}
