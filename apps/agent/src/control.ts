// The links to the control plane: one per replica, dialled from here. Sends hello and heartbeats, receives commands, sends
// reports. Knows no desktop.
import {
  agentCalls,
  type Heartbeat,
  type HeartbeatAnswer,
  type Hello,
  linkSubprotocol,
  type Report,
  type ReportName,
  type Welcome,
} from '@dormouse/contract'
import {
  type Channel,
  dial,
  dialChannel,
  type Handler,
  type Handshake,
  type Line,
  LinkLost,
  type Peer,
} from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { DialBack } from './commands/handler.ts'
import { linkUrl } from './enrolment/transport.ts'

export interface ControlOptions {
  /** Base URLs to start with; a replica's answer names all replicas. */
  seeds: readonly string[]
  /** Whether an address may be dialled. */
  mayDial: (url: string) => boolean
  /** Proves this host's identity on each new connection. */
  prove: (hands: Handshake) => Promise<void>
  /** The handlers of one link's commands. The channels that they dial back go to that link's replica. */
  handlers: (dialBack: DialBack) => Readonly<Record<string, Handler>>
  hello: () => Promise<Hello>
  /** The next heartbeat of this link. */
  heartbeat: (link: object) => Promise<Heartbeat>
  /** A replica's answer to a heartbeat, and when this host's clock stood in the middle between the two. */
  heard: (answer: HeartbeatAnswer, at: number) => void
  log: Log
}

interface Link {
  line: Line
  /** Set once the replica has welcomed this host. */
  replicaId: string | undefined
}

const callTimeoutMs = 15_000
/** A replica waits for a database that is slow. */
const beatTimeoutMs = 60_000
/** Each desktop has a limit of its own, far below; this one is for a faulty replica. */
const maxInFlight = 4_096

export class Control {
  readonly #options: ControlOptions
  readonly #seeds: readonly string[]
  readonly #links = new Map<string, Link>()
  readonly #channels = new Set<Channel>()
  #closed = false

  constructor(options: ControlOptions) {
    this.#options = options
    this.#seeds = options.seeds.map(trimmed)
    for (const url of this.#seeds) this.#open(url)
  }

  /** How many replicas have welcomed this host. */
  get welcomed(): number {
    return [...this.#links.values()].filter(({ replicaId }) => replicaId !== undefined).length
  }

  /** How many channels that were dialled back are open. */
  get channels(): number {
    return this.#channels.size
  }

  /** Sends the report to every replica; an unreachable one gets the state with the next hello. */
  say<N extends ReportName>(name: N, report: Report<N>): void {
    for (const { line, replicaId } of this.#links.values()) {
      if (replicaId === undefined || !line.peer) continue
      try {
        line.peer.emitEvent(name, report)
      } catch (error) {
        if (!(error instanceof LinkLost)) throw error
        this.#options.log.debug({ report: name }, 'a report was not sent: its link was lost')
      }
    }
  }

  /** Opens each link again; the commands in flight are repeated by who sent them. */
  redial(): void {
    for (const { line } of this.#links.values()) void line.peer?.close(4002, 'the host proves itself again')
  }

  /** Closes all links and all channels. */
  async close(): Promise<void> {
    this.#closed = true
    for (const channel of this.#channels) channel.destroy()
    await Promise.all([...this.#links.keys()].map((url) => this.#drop(url)))
  }

  #open(url: string): void {
    if (this.#closed || this.#links.has(url) || !this.#options.mayDial(url)) return
    const { log, handlers, prove } = this.#options
    const dialBack: DialBack = async (name, signal) =>
      this.#hold(await dialChannel({ url: channelUrl(url, name), signal }))
    const backoff = { minMs: 100, maxMs: 3_000 }
    const bounds = { maxInFlight, backoff }
    const line = dial({
      url: linkUrl(url),
      protocols: [linkSubprotocol],
      prove,
      handlers: handlers(dialBack),
      log,
      ...bounds,
    })
    const link: Link = { line, replicaId: undefined }
    this.#links.set(url, link)
    line.on('peer', (peer) => void this.#greet(url, link, peer))
    line.on('lost', (reason) => this.#lost(url, link, reason))
    line.on('refused', ({ message, status }) =>
      log.warn({ url, status, why: message }, 'the control plane was not reached'),
    )
  }

  #hold(channel: Channel): Channel {
    this.#channels.add(channel)
    channel.once('close', () => this.#channels.delete(channel))
    if (this.#closed) channel.destroy()
    return channel
  }

  async #drop(url: string): Promise<void> {
    const link = this.#links.get(url)
    this.#links.delete(url)
    await link?.line.close()
  }

  #lost(url: string, link: Link, reason: string): void {
    link.replicaId = undefined
    if (this.#closed) return
    this.#options.log.warn({ url, reason }, 'link lost')
    if (this.welcomed === 0) for (const seed of this.#seeds) this.#open(seed)
  }

  /** Hello, welcome, then heartbeats until the link closes. After an error the link is closed and dialled again. */
  async #greet(url: string, link: Link, peer: Peer): Promise<void> {
    const { log } = this.#options
    try {
      const answer = await peer.call('host.hello', await this.#options.hello(), { timeoutMs: callTimeoutMs })
      const welcome = agentCalls['host.hello'].result.parse(answer)
      link.replicaId = welcome.replicaId
      log.info({ url, replicaId: welcome.replicaId, epoch: welcome.epoch }, 'linked')
      this.#learn(welcome.replicas)
      this.#leaveDoubles(url, welcome)
      await this.#beat(peer, welcome)
    } catch (error) {
      if (this.#closed || peer.closed) return
      log.error({ err: error, url }, 'the control plane did not welcome this host')
      await peer.close(1011, 'no welcome')
    }
  }

  async #beat(peer: Peer, { heartbeatMs }: Welcome): Promise<void> {
    const gone = Promise.withResolvers<void>()
    peer.once('close', () => gone.resolve())
    while (!peer.closed) {
      const pause = Promise.withResolvers<void>()
      const timer = setTimeout(pause.resolve, heartbeatMs)
      await Promise.race([pause.promise, gone.promise])
      clearTimeout(timer)
      if (peer.closed) return
      const beat = await this.#options.heartbeat(peer)
      const sentAt = Date.now()
      const answer = await peer.call('host.heartbeat', beat, { timeoutMs: beatTimeoutMs })
      const heard = agentCalls['host.heartbeat'].result.parse(answer)
      this.#options.heard(heard, (sentAt + Date.now()) / 2)
      this.#learn(heard.replicas)
    }
  }

  /**
   * Keeps one link to each live replica and none to others. A replica's list may be outdated, so a link with heartbeats is
   * kept, with its commands in flight.
   */
  #learn(replicas: readonly string[]): void {
    const live = replicas.map(trimmed)
    for (const url of live) this.#open(url)
    for (const [url, { replicaId }] of this.#links) {
      if (replicaId === undefined && !live.includes(url) && !this.#seeds.includes(url)) void this.#drop(url)
    }
  }

  /** Two addresses may lead to one replica: the one that it gives itself is kept. */
  #leaveDoubles(url: string, { replicaId, replicas }: Welcome): void {
    const live = replicas.map(trimmed)
    const doubles = [...this.#links].filter(([other, link]) => other !== url && link.replicaId === replicaId)
    for (const [other] of doubles) void this.#drop(live.includes(other) ? url : other)
  }
}

const trimmed = (url: string) => url.replace(/\/+$/, '')

const channelUrl = (base: string, name: string) => `${base.replace(/^http/, 'ws')}/agent/v1/channels/${name}`
