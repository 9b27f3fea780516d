// One host's link: its hello, then its heartbeats and reports, validated and rate-limited. Knows neither how the host was
// authenticated nor what its messages mean.
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
import { validated } from './validation.ts'

/** Passed in by the wiring: a link itself knows neither hosts nor desktops. */
export interface HostHooks {
  /** The host's first message. The result is sent back as the welcome. */
  hello(hostId: string, hello: Hello): Promise<Welcome>
  /** The hello was answered: the link may be used. */
  joined(hostId: string, hello: Hello, peer: Peer): void
  heartbeat(hostId: string, heartbeat: Heartbeat): Promise<HeartbeatAnswer>
  report<N extends ReportName>(hostId: string, name: N, report: Report<N>): void
}

export interface HostLinkOptions {
  hostId: string
  hooks: HostHooks
  /** Shared by all links of the host. */
  pace: Pace
  /** How often a host should send a heartbeat. */
  heartbeatMs: number
  log: Log
}

/** An agent has one call in flight at a time. */
const maxInFlight = 4
const helloTimeoutMs = 30_000

export class HostLink {
  readonly peer: Peer
  readonly #options: HostLinkOptions
  #phase: 'nothing' | 'hello' | 'welcomed' = 'nothing'
  #beating = false
  /** The earliest time at which the next heartbeat is handled. */
  #nextBeat = 0
  #invalid = 0

  /** Takes over an open socket. Call it in the tick in which the socket opens. */
  constructor(socket: WebSocket, options: HostLinkOptions) {
    this.#options = options
    const { pace, log } = options
    this.peer = new Peer(socket, {
      log,
      pace,
      maxInFlight,
      // A host that dies silently is unreachable within 15 s: at most 5 s to the next ping, 5 s for its answer.
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

  /** Closes the link so that a newer one of the host can replace it. A welcomed link stays until the newer one is welcomed. */
  async leave(): Promise<void> {
    if (this.#phase !== 'welcomed') await this.peer.close(4000, 'replaced by a newer link')
  }

  #requireHello(): void {
    if (this.#phase === 'nothing') void this.peer.close(4003, `no hello within ${helloTimeoutMs} ms`)
  }

  async #hello(payload: unknown): Promise<Welcome> {
    const { hostId, hooks, log } = this.#options
    if (this.#phase !== 'nothing') refuse('conflict', 'this link has already sent a hello')
    this.#phase = 'hello'
    const hello = validated('host.hello', agentCalls['host.hello'].payload, payload, log)
    if (hello.protocol !== linkProtocol) {
      refuse('conflict', `this control plane needs link protocol ${linkProtocol}; upgrade the agent`)
    }
    const welcome = await hooks.hello(hostId, hello)
    this.#phase = 'welcomed'
    hooks.joined(hostId, hello, this.peer)
    log.info({ desktops: hello.inventory.length }, 'host linked')
    return welcome
  }

  /** Handles one heartbeat at a time, and none long before it is due: each writes to the database. */
  async #heartbeat(payload: unknown, { signal }: HandlerContext): Promise<HeartbeatAnswer> {
    const { hostId, hooks, heartbeatMs, log } = this.#options
    if (this.#phase !== 'welcomed') refuse('conflict', 'a link must begin with a hello')
    if (this.#beating) refuse('conflict', 'the previous heartbeat has not been answered yet')
    this.#beating = true
    try {
      const heartbeat = validated('host.heartbeat', agentCalls['host.heartbeat'].payload, payload, log)
      await sleep(Math.max(0, this.#nextBeat - performance.now()), undefined, { signal })
      this.#nextBeat = performance.now() + heartbeatMs / 2
      return await hooks.heartbeat(hostId, heartbeat)
    } finally {
      this.#beating = false
    }
  }

  #report(name: string, payload: unknown): void {
    const { hostId, hooks } = this.#options
    if (this.#phase !== 'welcomed') return
    const parsed = isReport(name) ? reports[name].safeParse(payload) : undefined
    if (parsed?.success) hooks.report(hostId, name as ReportName, parsed.data)
    else this.#logInvalid(name)
  }

  /** Logs the 1st, 10th, 100th and so on, so that a faulty host cannot flood the log. */
  #logInvalid(report: string): void {
    const count = ++this.#invalid
    if (Number.isInteger(Math.log10(count))) this.#options.log.warn({ report, count }, 'a report of a host was invalid')
  }
}

const isReport = (name: string): name is ReportName => Object.hasOwn(reports, name)
