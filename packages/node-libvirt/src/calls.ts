/** Sends every call to the daemon: on its lane, in its domain's turn, with a timeout. Does not know what the calls mean. */
import { type Address, Connection } from './connection.ts'
import { CallTimeout } from './errors.ts'
import { Lane, type LaneSize, type Ticket } from './lane.ts'
import type { Args, ProcedureName, Result } from './protocol.ts'
import { Turns } from './turns.ts'

/**
 * The lanes of a host with a few hundred domains. A daemon has 20 ordinary threads by default: operations and guest
 * together may hold 16 of them, the rest is for short calls.
 */
export const laneSizes = {
  /** Look-ups, states, lists, definitions: short, and mostly answered by the daemon's priority threads. */
  control: { connections: 1, kept: 1 },
  /** Calls that change a domain, pool or network, or take long. A save or migration holds its slot until it ends. */
  operations: { connections: 2, spare: 4 },
  guest: { connections: 2 },
  stats: { connections: 1 },
} as const satisfies Record<string, LaneSize>

export type LaneName = keyof typeof laneSizes

/** The default timeouts. Operations have none: the daemon ends them. */
const defaultTimeoutMs = { control: 30_000, operations: undefined, guest: 30_000, stats: 30_000 } as const

export interface CallOptions {
  /** Calls of one turn run one after the other, in the order of the calls. */
  turn?: string
  /** Skips its turn, and gets its own connection if the lane is full. */
  urgent?: boolean
  timeoutMs?: number
}

export type CallObserver = <T>(procedure: ProcedureName, work: () => Promise<T>) => Promise<T>

export interface CallsOptions {
  address: Address
  uri: string
  openTimeoutMs: number
  keepaliveMs: number
  lanes?: Partial<Record<LaneName, LaneSize>>
  observeCall?: CallObserver | undefined
}

export class Calls {
  readonly #observeCall: CallObserver | undefined
  readonly #lanes: Record<LaneName, Lane>
  readonly #turns = new Turns()

  constructor(options: CallsOptions) {
    this.#observeCall = options.observeCall
    const lane = (name: LaneName) =>
      new Lane((onClose) => Connection.open({ ...options, onClose }), { ...laneSizes[name], ...options.lanes?.[name] })
    this.#lanes = {
      control: lane('control'),
      operations: lane('operations'),
      guest: lane('guest'),
      stats: lane('stats'),
    }
  }

  /** One call. Rejects with LibvirtError, ConnectionLost or CallTimeout, and is never repeated. */
  call<N extends ProcedureName>(lane: LaneName, name: N, args: Args<N>, options: CallOptions = {}): Promise<Result<N>> {
    const work = () => this.#call(lane, name, args, options)
    return this.#observeCall ? this.#observeCall(name, work) : work()
  }

  #call<N extends ProcedureName>(
    lane: LaneName,
    name: N,
    args: Args<N>,
    { turn, urgent = false, timeoutMs = defaultTimeoutMs[lane] }: CallOptions,
  ): Promise<Result<N>> {
    const ticket: Ticket = { urgent, sent: false, abandoned: false }
    const send = () => this.#lanes[lane].call(name, args, ticket)
    const work = turn === undefined ? send() : urgent ? this.#turns.ahead(turn, send) : this.#turns.run(turn, send)
    return timeoutMs === undefined ? work : withDeadline(work, ticket, name, timeoutMs)
  }

  close(): void {
    for (const lane of Object.values(this.#lanes)) lane.close(new Error('closed by us'))
  }
}

function withDeadline<T>(work: Promise<T>, ticket: Ticket, name: string, timeoutMs: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const timer = setTimeout(() => {
    ticket.abandoned = true
    reject(new CallTimeout(ticket.sent, name))
    ticket.withdraw?.()
  }, timeoutMs)
  const clear = () => clearTimeout(timer)
  work.then(resolve, reject)
  work.then(clear, clear)
  return promise
}
