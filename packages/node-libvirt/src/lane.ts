/**
 * A few connections for one kind of call, so that stuck calls of one kind never delay another. Calls queue here until a
 * connection has a free slot; calls for which the daemon reserves threads go first. Connections open on demand.
 */
import { type Connection, callsInFlight } from './connection.ts'
import { CallTimeout, ConnectionLost } from './errors.ts'
import { type Args, type ProcedureName, procedures, type Result } from './protocol.ts'

export interface LaneSize {
  connections: number
  /** Additional connections, for urgent calls only. */
  spare?: number
  /** Slots of each connection that are reserved for high-priority calls. */
  kept?: number
}

/** The state of a call in the lane, shared with its caller. */
export interface Ticket {
  urgent: boolean
  sent: boolean
  /** The caller no longer waits: do not send the call. */
  abandoned: boolean
  withdraw?: () => void
}

interface Queued {
  name: ProcedureName
  /** Urgent before high priority before ordinary. */
  rank: 0 | 1 | 2
  ticket: Ticket
  send: (connection: Connection) => void
  reject: (error: Error) => void
}

export class Lane {
  readonly #open: (onClose: () => void) => Promise<Connection>
  readonly #size: Required<LaneSize>
  #connections: Connection[] = []
  #opening = false
  #queue: Queued[] = []
  #closed = false

  constructor(open: (onClose: () => void) => Promise<Connection>, { connections, spare = 0, kept = 0 }: LaneSize) {
    this.#open = open
    this.#size = { connections, spare, kept }
  }

  /** Sends the call when a slot is free. Rejects with ConnectionLost, not sent, if the daemon is unreachable. */
  call<N extends ProcedureName>(name: N, args: Args<N>, ticket: Ticket): Promise<Result<N>> {
    const { promise, resolve, reject } = Promise.withResolvers<Result<N>>()
    const send = (connection: Connection) => {
      const free = () => this.#pump()
      ticket.sent = true
      const reply = connection.call(name, args)
      reply.then(resolve, reject)
      reply.then(free, free)
    }
    const rank = ticket.urgent ? 2 : procedures[name].high ? 1 : 0
    this.#enqueue({ name, rank, ticket, send, reject })
    this.#pump()
    return promise
  }

  /** Closes every connection. Queued calls reject as not sent, the others as sent. */
  close(reason: Error): void {
    this.#closed = true
    this.#refuse(reason)
    for (const connection of this.#connections) connection.close(reason)
  }

  #enqueue(queued: Queued): void {
    const { name, ticket, reject } = queued
    const withdraw = () => {
      this.#queue = this.#queue.filter((it) => it !== queued)
      reject(new CallTimeout(false, name))
    }
    ticket.withdraw = withdraw
    const before = this.#queue.findIndex((it) => it.rank < queued.rank)
    this.#queue.splice(before < 0 ? this.#queue.length : before, 0, queued)
    if (ticket.abandoned) withdraw()
  }

  #pump(): void {
    for (;;) {
      const next = this.#queue[0]
      if (!next) return
      const connection = this.#choose(next.rank)
      if (!connection) {
        this.#grow(next)
        return
      }
      this.#queue.shift()
      next.ticket.withdraw = undefined
      next.send(connection)
    }
  }

  #limit(rank: number): number {
    return this.#size.connections + (rank === 2 ? this.#size.spare : 0)
  }

  #choose(rank: number): Connection | undefined {
    const slots = rank > 0 ? callsInFlight : callsInFlight - this.#size.kept
    let best: Connection | undefined
    for (const connection of this.#connections.slice(0, this.#limit(rank))) {
      if (connection.inFlight < slots && connection.inFlight < (best?.inFlight ?? slots)) best = connection
    }
    return best
  }

  #grow(next: Queued): void {
    if (this.#closed) this.#refuse(new Error('closed by us'))
    if (this.#closed || this.#opening || this.#connections.length >= this.#limit(next.rank)) return
    this.#opening = true
    const forget = () => {
      this.#connections = this.#connections.filter((it) => !it.closed)
    }
    this.#open(forget).then(
      (connection) => this.#opened(connection),
      (error: Error) => this.#opened(undefined, error),
    )
  }

  #opened(connection: Connection | undefined, error?: Error): void {
    this.#opening = false
    if (connection && this.#closed) connection.close()
    else if (connection && !connection.closed) this.#connections.push(connection)
    if (!error) this.#pump()
    else if (this.#connections.length === 0) this.#refuse(error)
  }

  #refuse(error: Error): void {
    const cause = error instanceof ConnectionLost ? (error.cause as Error) : error
    const queue = this.#queue
    this.#queue = []
    for (const { name, reject } of queue) reject(new ConnectionLost(false, name, cause))
  }
}
