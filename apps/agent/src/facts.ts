// What this host says of itself, kept fresh beside the heartbeats so that a hypervisor that hangs never delays one.
import { type HostFacts, oldVcpusPerProcessor } from '@dormouse/contract'
import packageJson from '../package.json' with { type: 'json' }
import type { Driver } from './driver/driver.ts'

const patienceMs = 1_000
/** A hypervisor that has just been met is asked what QEMU can do, which takes it a while. */
const firstPatienceMs = 10_000

export class Facts {
  readonly #driver: Driver
  readonly #ailment: () => string | null
  #known: HostFacts
  #asking: Promise<HostFacts> | undefined
  #met = false

  /** `ailment` is asked for what ails the host beside its hypervisor. */
  constructor(driver: Driver, ailment: () => string | null) {
    this.#driver = driver
    this.#ailment = ailment
    this.#known = {
      agentVersion: packageJson.version,
      driver: driver.kind,
      kvm: false,
      versions: {},
      processors: 0,
      capacity: { vcpus: 0, memoryMiB: 0, diskGiB: 0 },
      freeDiskGiB: 0,
      images: [],
      ailment: 'the hypervisor has not answered yet',
    }
  }

  /** The facts now; the last known ones, with an ailment, where the hypervisor does not answer within a second (at first: ten). */
  async current(): Promise<HostFacts> {
    this.#asking ??= this.#ask()
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, this.#met ? patienceMs : firstPatienceMs)
    const answer = await Promise.race([this.#asking, late.promise])
    clearTimeout(timer)
    this.#met = true
    const facts = answer ?? { ...this.#known, ailment: this.#known.ailment ?? 'the hypervisor does not answer' }
    return { ...facts, ailment: facts.ailment ?? this.#ailment() }
  }

  async #ask(): Promise<HostFacts> {
    try {
      const facts = await this.#driver.facts()
      const vcpus = Math.floor(facts.processors * oldVcpusPerProcessor)
      this.#known = { ...this.#known, ...facts, capacity: { ...facts.capacity, vcpus } }
      return this.#known
    } catch (error) {
      return {
        ...this.#known,
        ailment: `the hypervisor does not answer: ${error instanceof Error ? error.message : error}`,
      }
    } finally {
      this.#asking = undefined
    }
  }
}
