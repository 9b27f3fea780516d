// The control plane of one test: enrols hosts, authenticates them and accepts their links. It decides nothing.
import { createPublicKey, type JsonWebKey, randomBytes, verify } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  agentCalls,
  type CommandName,
  type CommandPayload,
  type CommandResult,
  enrolBody,
  type Heartbeat,
  type Hello,
  linkProof,
  linkProofText,
  linkSubprotocol,
  newId,
} from '@dormouse/contract'
import { type Handshake, Peer, shakeHands, UpgradeRefusal, type UpgradeRoute } from '@dormouse/link'
import { openDoors } from '@dormouse/link/testing'

const isLink = (pathname: string) => pathname === '/agent/v1/link'

export class ControlPlane {
  readonly hostId: string
  readonly installationId: string
  readonly replicaId = newId()
  /** The replicas that it reports; only itself unless set. */
  replicas: string[] | undefined
  readonly hellos: Hello[] = []
  readonly heartbeats: Heartbeat[] = []
  readonly reports: { name: string; payload: unknown }[] = []
  /** How many hosts were authenticated here. */
  proven = 0
  readonly #server = createServer((request, response) => {
    if (request.url === '/readyz') return void response.end()
    void this.#enrol(request).then((answer) => {
      response.writeHead(answer ? 201 : 409, { 'content-type': 'application/json' })
      response.end(JSON.stringify(answer ?? { detail: 'the invitation was used before' }))
    })
  })
  readonly #upgrades = openDoors(this.#server)
  #key: JsonWebKey | undefined
  #peer: Peer | undefined

  private constructor(first?: ControlPlane) {
    this.hostId = first?.hostId ?? newId()
    this.installationId = first?.installationId ?? newId()
    this.#key = first ? first.#key : undefined
  }

  /** A control plane, or another replica of `first`, which has enrolled its host already. */
  static async start(first?: ControlPlane): Promise<ControlPlane> {
    const plane = new ControlPlane(first)
    plane.#upgrades.add(plane.#door())
    await new Promise<void>((resolve) => plane.#server.listen(0, '127.0.0.1', resolve))
    return plane
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get linked(): boolean {
    return this.#peer !== undefined
  }

  async ask<N extends CommandName>(name: N, payload: CommandPayload<N>): Promise<CommandResult<N>> {
    if (!this.#peer) throw new Error('no host is linked')
    return (await this.#peer.call(name, payload)) as CommandResult<N>
  }

  async cut(): Promise<void> {
    await this.#peer?.close(1001, 'cut by the test')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#upgrades.close()
    this.#server.close()
  }

  async #enrol(request: IncomingMessage) {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = enrolBody.parse(JSON.parse(Buffer.concat(chunks).toString()))
    if (body.token !== 'good') return undefined
    this.#key = body.public_key
    return { host_id: this.hostId, installation_id: this.installationId }
  }

  #door(): UpgradeRoute<unknown> {
    return {
      path: isLink,
      protocol: () => linkSubprotocol,
      authenticate: () => undefined,
      onSocket: (socket) =>
        void shakeHands(socket, {}, (hands) => this.#challenge(hands)).then(
          () => this.#take(new Peer(socket, { handlers: this.#handlers() })),
          () => undefined,
        ),
    }
  }

  async #challenge(hands: Handshake) {
    const nonce = randomBytes(32).toString('base64url')
    hands.say(JSON.stringify({ nonce }))
    const { hostId, signature } = linkProof.parse(JSON.parse(await hands.hear()))
    const text = Buffer.from(linkProofText(this.installationId, hostId, nonce))
    const key = this.#key && createPublicKey({ key: this.#key, format: 'jwk' })
    const isGood = key && verify(null, text, key, Buffer.from(signature, 'base64url'))
    if (!isGood || hostId !== this.hostId) return new UpgradeRefusal(401, 'another host')
    hands.say(JSON.stringify({ accepted: true }))
    this.proven++
    return undefined
  }

  #handlers() {
    const welcome = { hostId: this.hostId, replicaId: this.replicaId, epoch: 1, heartbeatMs: 20 }
    return {
      'host.hello': async (payload: unknown) => {
        this.hellos.push(agentCalls['host.hello'].payload.parse(payload))
        return { ...welcome, replicas: this.replicas ?? [this.url] }
      },
      'host.heartbeat': async (payload: unknown) => {
        this.heartbeats.push(agentCalls['host.heartbeat'].payload.parse(payload))
        return { replicas: this.replicas ?? [this.url], leads: true }
      },
    }
  }

  #take(peer: Peer): void {
    this.#peer = peer
    peer.on('event', (name, payload) => this.reports.push({ name, payload }))
    peer.on('close', () => {
      if (this.#peer === peer) this.#peer = undefined
    })
  }
}
