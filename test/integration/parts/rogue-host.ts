// A host without an agent: it holds a key that the control plane enrolled, and says whatever its test likes.
import { generateKeyPairSync } from 'node:crypto'
import type { Identity } from '@dormouse/agent/enrolment/identity.ts'
import { prove } from '@dormouse/agent/enrolment/prove.ts'
import { linkProtocol, linkSubprotocol } from '@dormouse/contract'
import { dial, type Handler, type Line, type Peer } from '@dormouse/link'

type Handlers = Record<string, Handler>

/** A small host that takes nothing, as its facts have it. */
export const modestFacts = {
  agentVersion: '0',
  driver: 'simulated',
  kvm: false,
  versions: {},
  capacity: { memoryMiB: 1, diskGiB: 1 },
  processors: 1,
  workAtOnce: 1,
  imageDigests: [],
  fetches: [],
  moveAddress: null,
  warm: { copies: 0, memoryMiB: 0, maxMiB: 0 },
  freeDiskGiB: 1,
  images: [] as string[],
  ailment: null as string | null,
}

const emptyInventory: Handlers = { 'host.inventory': async () => ({ items: [], digests: [] }) }
const never = { minMs: 600_000, maxMs: 600_000 }

export class RogueHost {
  readonly url: string
  readonly identity: Identity
  readonly #lines = new Set<Line>()

  private constructor(url: string, identity: Identity) {
    this.url = url
    this.identity = identity
  }

  /** Enrols at the control plane by an invitation. */
  static async enrol(url: string, token: string, name = 'rogue'): Promise<RogueHost> {
    const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
    const body = JSON.stringify({ token, name, public_key: { kty, crv, x } })
    const answer = await fetch(`${url}/agent/v1/enrol`, { method: 'POST', body })
    if (answer.status !== 201) throw new Error(`enrol: ${answer.status} ${await answer.text()}`)
    const { host_id: hostId, installation_id: installationId } = (await answer.json()) as Record<string, string>
    const key = { kty, crv, x, d } as Identity['key']
    return new RogueHost(url, { key, hostId: hostId!, installationId: installationId! })
  }

  get id(): string {
    return this.identity.hostId
  }

  /** A link that has said nothing yet; it is dialled once. */
  async link(handlers: Handlers = {}, url = this.url): Promise<Peer> {
    const line = dial({
      url: `${url.replace(/^http/, 'ws')}/agent/v1/link`,
      protocols: [linkSubprotocol],
      prove: (hands) => prove(hands, this.identity),
      handlers: { ...emptyInventory, ...handlers },
      backoff: never,
    })
    this.#lines.add(line)
    const { promise: refused, reject } = Promise.withResolvers<never>()
    line.once('refused', reject)
    return Promise.race([line.connected(), refused])
  }

  /** What a host says first, but for what the test says otherwise. */
  hello(more: object = {}, facts: object = {}): object {
    const { installationId } = this.identity
    const all = { ...modestFacts, ...facts }
    return { protocol: linkProtocol, installationId, facts: all, inventory: [], highestEpoch: 0, ...more }
  }

  /** A link that said hello and was welcomed. */
  async linked(more: { hello?: object; facts?: object; handlers?: Handlers; url?: string } = {}): Promise<Peer> {
    const peer = await this.link(more.handlers, more.url)
    await peer.call('host.hello', this.hello(more.hello, more.facts))
    return peer
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#lines].map((line) => line.close()))
  }
}
