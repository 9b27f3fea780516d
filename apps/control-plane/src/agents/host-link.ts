// One host's link from its first word on: its hello, its heartbeats and its reports, one at a time, at their pace, and as far
// as they are understood. Knows neither how the host proved itself nor what its words mean.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  agentCalls,
  type Heartbeat,
  type HeartbeatAnswer,
  type Hello,
  linkProtocol,
  type Report,
  type ReportName,
  refuse,
  reports,
  type Welcome,
} from '@dormouse/contract'
import { type HandlerContext, type Pace, Peer } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { WebSocket } from 'ws'
import { understood } from './understood.ts'

/** What the roof hands in: a link itself knows neither hosts nor desktops. */
export interface HostHooks {
  /** The host's first word; what it answers is the welcome. */
  hello(hostId: string, hello: Hello): Promise<Welcome>
  /** The hello was answered: the link counts. */
  joined(hostId: string, hello: Hello, peer: Peer): void
  heartbeat(hostId: string, heartbeat: Heartbeat): Promise<HeartbeatAnswer>
  report<N extends ReportName>(hostId: string, name: N, report: Report<N>): void
}

export interface HostLinkOptions {
  hostId: string
  hooks: HostHooks
  /** Shared by all links of the host. */
  pace: Pace
  /** How often a host should say that it lives. */
  heartbeatMs: number
  log: Log
}

/** An agent has one call under way at a time. */
const maxInFlight = 4
const helloTimeoutMs = 30_000

export class HostLink {
  readonly peer: Peer
  readonly #options: HostLinkOptions
  #said: 'nothing' | 'hello' | 'welcomed' = 'nothing'
  #beating = false
  /** When the next heartbeat is worth looking at. */
  #nextBeat = 0
  #odd = 0

  /** Takes over an open socket, in the tick in which it opens. */
  constructor(socket: WebSocket, options: HostLinkOptions) {
    this.#options = options
    const { pace, log } = options
    this.peer = new Peer(socket, {
      log,
      pace,
      maxInFlight,
      // A host that died in silence is unreachable within 15 s: 5 s to the ping, 5 s for its answer.
      pingIntervalMs: 5_000,
      pingTimeoutMs: 5_000,
      handlers: {
        'host.hello': (payload) => this.#hello(payload),
        'host.heartbeat': (payload, context) => this.#heartbeat(payload, context),
      },
    })
    const late = setTimeout(() => this.#requireHello(), helloTimeoutMs)
    this.peer.on('event', (name, payload) => this.#report(name, payload))
    this.peer.on('close', (reason) => {
      clearTimeout(late)
      log.info({ reason }, 'host link closed')
    })
  }

  /** Makes room for a newer link of the host, unless it was welcomed: then it is closed by the one that is welcomed next. */
  async leave(): Promise<void> {
    if (this.#said !== 'welcomed') await this.peer.close(4000, 'replaced by a newer link')
  }

  #requireHello(): void {
    if (this.#said === 'nothing') void this.peer.close(4003, `no hello came within ${helloTimeoutMs} ms`)
  }

  async #hello(payload: unknown): Promise<Welcome> {
    const { hostId, hooks, log } = this.#options
    if (this.#said !== 'nothing') refuse('conflict', 'this link has said hello before')
    this.#said = 'hello'
    const hello = understood('host.hello', agentCalls['host.hello'].payload, payload, log)
    if (hello.protocol !== linkProtocol) {
      refuse('conflict', `this control plane speaks link protocol ${linkProtocol}; upgrade the agent`)
    }
    const welcome = await hooks.hello(hostId, hello)
    this.#said = 'welcomed'
    hooks.joined(hostId, hello, this.peer)
    log.info({ desktops: hello.inventory.length }, 'host linked')
    return welcome
  }

  /** One at a time, and none long before it is due: each costs the database something. */
  async #heartbeat(payload: unknown, { signal }: HandlerContext): Promise<HeartbeatAnswer> {
    const { hostId, hooks, heartbeatMs, log } = this.#options
    if (this.#said !== 'welcomed') refuse('conflict', 'a link begins with a hello')
    if (this.#beating) refuse('conflict', 'the heartbeat before has not been answered yet')
    this.#beating = true
    try {
      const heartbeat = understood('host.heartbeat', agentCalls['host.heartbeat'].payload, payload, log)
      await sleep(Math.max(0, this.#nextBeat - performance.now()), undefined, { signal })
      this.#nextBeat = performance.now() + heartbeatMs / 2
      return await hooks.heartbeat(hostId, heartbeat)
    } finally {
      this.#beating = false
    }
  }

  #report(name: string, payload: unknown): void {
    const { hostId, hooks } = this.#options
    if (this.#said !== 'welcomed') return
    const parsed = isReport(name) ? reports[name].safeParse(payload) : undefined
    if (parsed?.success) hooks.report(hostId, name as ReportName, parsed.data)
    else this.#misunderstood(name)
  }

  /** The first is told, and then the tenth, the hundredth: a host that talks nonsense fills no log. */
  #misunderstood(report: string): void {
    const count = ++this.#odd
    if (Number.isInteger(Math.log10(count))) this.#options.log.warn({ report, count }, 'a report was not understood')
  }
}

const isReport = (name: string): name is ReportName => Object.hasOwn(reports, name)
