// A move between two benches, step by step, as the control plane does it.
import { randomBytes } from 'node:crypto'
import type { CommandPayload, CommandResult, DesktopSpec, Fence, MoveKind, MoveTraits, Relay } from '@dormouse/contract'
import { type Bench, fenceOf, spec as smallSpec } from './bench.ts'

/** An agent, in whatever process. */
type Asked = Pick<Bench, 'ask'>

interface MoveOptions {
  from: Asked
  to: Asked
  desktopId: string
  kind: MoveKind
  generation: number
  /** The move's; its decision takes the next one. */
  turn: number
  spec?: DesktopSpec
  /** It passes through this, in place of a connection between the hosts. */
  relay?: { expect(host: string): Relay }
}

export class TestMove {
  readonly #options: MoveOptions
  readonly spec: DesktopSpec
  readonly fence: Fence
  readonly decision: Fence
  key = randomBytes(32).toString('base64url')
  traits: MoveTraits | undefined
  #handoff = ''
  #address: CommandResult<'move.prepare'>['address'] | undefined

  constructor(options: MoveOptions) {
    const { desktopId, generation, turn, spec = smallSpec } = options
    this.#options = options
    this.spec = spec
    this.fence = fenceOf(desktopId, generation, turn)
    // The same operation: only the turn is another.
    this.decision = { ...this.fence, turn: turn + 1 }
  }

  get from(): Asked {
    return this.#options.from
  }

  get to(): Asked {
    return this.#options.to
  }

  /** Why the new host cannot take it; null if it can. */
  async check(): Promise<string | null> {
    this.traits = await this.from.ask('move.traits', { desktopId: this.#options.desktopId })
    return (await this.to.ask('move.check', { spec: this.spec, traits: this.traits, mayRelay: false })).misfit
  }

  async begin(): Promise<void> {
    this.traits ??= await this.from.ask('move.traits', { desktopId: this.#options.desktopId })
    const { fence } = this
    this.#handoff = (await this.from.ask('move.begin', { fence, kind: this.#options.kind })).handoff
  }

  async prepare(key = this.key): Promise<void> {
    const { fence, spec, traits } = this
    const { kind, relay } = this.#options
    const imageDigest = traits?.imageDigest ?? 'unknown'
    const request: CommandPayload<'move.prepare'> = { fence, kind, spec, imageDigest, key, handoff: this.#handoff }
    const prepared = await this.to.ask('move.prepare', { ...request, relay: relay?.expect('new') })
    this.#address = prepared.address
    if (kind === 'live') this.#handoff = prepared.handoff
  }

  async send(key = this.key): Promise<void> {
    const { fence } = this
    const { relay } = this.#options
    const route = relay ? { address: null, relay: relay.expect('old') } : { address: this.#address! }
    const sent = await this.from.ask('move.send', { fence, key, handoff: this.#handoff, ...route })
    this.#handoff = sent.handoff
  }

  async arrive(): Promise<void> {
    this.#handoff = (await this.to.ask('move.arrive', { fence: this.fence, handoff: this.#handoff })).handoff
  }

  async settle() {
    return (await this.to.ask('move.settle', { fence: this.decision })).state
  }

  async release(): Promise<void> {
    await this.from.ask('move.release', { fence: this.decision, handoff: this.#handoff || null })
  }

  async abandon(): Promise<void> {
    await this.to.ask('move.abandon', { fence: this.fence })
  }

  async keep() {
    return (await this.from.ask('move.keep', { fence: this.fence })).state
  }

  /** Up to the decision: it is on both hosts, and runs on neither. */
  async across(): Promise<void> {
    await this.begin()
    await this.prepare()
    await this.send()
    await this.arrive()
  }

  /** All of it; returns the state on the new host. */
  async whole() {
    await this.across()
    const state = await this.settle()
    await this.release()
    return state
  }

  /** The undo, in the order of the control plane: the new host first. */
  async back() {
    await this.abandon()
    return this.keep()
  }
}
