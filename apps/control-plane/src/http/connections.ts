// How many connections there are at once: from one address, with one credential, in all. Who has shown nothing counts by
// his address, and the oldest gives way to the next: whoever comes can always show who he is. Who has shown a good credential
// counts by that, for as long as his request or his WebSocket lasts. Knows no route and no credential but by its name.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'
import { type Addresses, countedAs } from './addresses.ts'
import type { App } from './app.ts'

export interface ConnectionLimits {
  perAddress: number
  perCredential: number
  inAll: number
}

/** What is known of one address. It is forgotten with its last connection. */
interface Home {
  name: string
  /** Those who have shown nothing, the oldest first: connections, or requests that came through a proxy. */
  strangers: Set<Connection | Visit>
  /** How many refer to it, whatever they have shown. */
  known: number
}

interface Connection {
  socket: Socket
  /** Undefined for that of a proxy: its requests have addresses of their own. */
  home: Home | undefined
  visits: Map<IncomingMessage, Visit>
  /** How many of its visits have shown a credential. */
  proven: number
  isUpgraded: boolean
}

/** A request under way, or a WebSocket, of which there is something to know. */
interface Visit {
  connection: Connection
  home: Home | undefined
  credential: string | undefined
}

/** Tells one who must go that he is one too many, and hangs up. */
export type TurnAway = (socket: Socket) => void

export class Connections {
  readonly #limits: ConnectionLimits
  readonly #addresses: Addresses
  readonly #turnAway: TurnAway
  readonly #over: (request: IncomingMessage) => void
  readonly #open = new Map<Socket, Connection>()
  readonly #homes = new Map<string, Home>()
  /** Connections on which nobody has shown anything, the one that is so for longest first. */
  readonly #strangers = new Set<Connection>()
  readonly #byCredential = new Map<string, Set<Visit>>()

  /** `over` is told when a request is answered, or its connection is gone. */
  constructor(options: {
    limits: ConnectionLimits
    addresses: Addresses
    turnAway: TurnAway
    over?: (request: IncomingMessage) => void
  }) {
    this.#limits = options.limits
    this.#addresses = options.addresses
    this.#turnAway = options.turnAway
    this.#over = options.over ?? (() => undefined)
  }

  /** How many are open. */
  get count(): number {
    return this.#open.size
  }

  /** Counts every connection of the server, and ends the visits of the requests that it answers. */
  watch(app: App): void {
    const server: Server = app.server
    server.on('connection', (socket: Socket) => this.#take(socket))
    server.prependListener('upgrade', ({ socket }: IncomingMessage) => {
      const connection = this.#open.get(socket)
      if (connection) connection.isUpgraded = true
    })
    app.addHook('onResponse', (request, _reply, done) => {
      this.#end(request.raw)
      done()
    })
  }

  /** Counts one who has shown nothing by the address that his proxy names; without one, his connection counts already. */
  arrive(request: IncomingMessage): void {
    const connection = this.#open.get(request.socket)
    if (!connection || connection.home || connection.visits.has(request)) return
    const home = this.#homeOf(this.#addresses.of(request))
    const visit = { connection, home, credential: undefined }
    connection.visits.set(request, visit)
    this.#settle(home, visit)
  }

  /** From now on it counts by this credential. Throws `rate_limited` where that is one too many, if there is a limit. */
  prove(request: IncomingMessage, credential: string, limit = this.#limits.perCredential): void {
    const connection = this.#open.get(request.socket)
    if (!connection) return
    const holds = this.#byCredential.get(credential) ?? new Set()
    if (holds.size >= limit) throw tooMany(limit)
    this.#byCredential.set(credential, holds)
    this.#leave(connection.visits.get(request))
    const visit = { connection, home: undefined, credential }
    connection.visits.set(request, visit)
    holds.add(visit)
    if (connection.proven++ > 0) return
    this.#strangers.delete(connection)
    connection.home?.strangers.delete(connection)
  }

  /** Who pays for what the request holds: its credential or, where it has shown none, its address. */
  payerOf(request: IncomingMessage): { name: string; isStranger: boolean } {
    const connection = this.#open.get(request.socket)
    const visit = connection?.visits.get(request)
    if (visit?.credential !== undefined) return { name: `credential ${visit.credential}`, isStranger: false }
    // From now on it is told when this request is over.
    if (connection && !visit) connection.visits.set(request, { connection, home: undefined, credential: undefined })
    return { name: `address ${this.#addresses.of(request)}`, isStranger: true }
  }

  /** Ends a connection to make room. */
  turnAway(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (connection) this.#forget(connection)
    if (connection?.isUpgraded || isAnswering(socket)) socket.destroy()
    else this.#turnAway(socket)
  }

  #take(socket: Socket): void {
    const isProxy = this.#addresses.isProxy(socket)
    const home = isProxy ? undefined : this.#homeOf(countedAs(socket.remoteAddress))
    const connection: Connection = { socket, home, visits: new Map(), proven: 0, isUpgraded: false }
    this.#open.set(socket, connection)
    socket.once('close', () => this.#forget(connection))
    if (this.#open.size > this.#limits.inAll) this.#makeRoom(socket)
    if (this.#open.has(socket)) this.#rest(connection)
  }

  /** Nothing is shown on it at present: it is the last that gives way. */
  #rest(connection: Connection): void {
    this.#strangers.add(connection)
    if (connection.home) this.#settle(connection.home, connection)
  }

  #settle(home: Home, stranger: Connection | Visit): void {
    home.strangers.add(stranger)
    if (home.strangers.size <= this.#limits.perAddress) return
    const [oldest] = home.strangers
    this.turnAway('socket' in oldest! ? oldest.socket : oldest!.connection.socket)
  }

  /** The oldest stranger gives way; where there is none, the oldest of the credential that holds most; or the newcomer. */
  #makeRoom(newcomer: Socket): void {
    const [oldest] = this.#strangers
    const [ofMost] = [...this.#byCredential.values()].reduce<Set<Visit>>(
      (most, some) => (some.size > most.size ? some : most),
      new Set(),
    )
    this.turnAway(oldest?.socket ?? ofMost?.connection.socket ?? newcomer)
  }

  #homeOf(name: string): Home {
    const home = this.#homes.get(name) ?? { name, strangers: new Set(), known: 0 }
    home.known++
    this.#homes.set(name, home)
    return home
  }

  #end(request: IncomingMessage): void {
    const connection = this.#open.get(request.socket)
    const visit = connection?.visits.get(request)
    this.#over(request)
    if (!connection || !visit) return
    connection.visits.delete(request)
    this.#leave(visit)
    if (visit.credential !== undefined && --connection.proven === 0) this.#rest(connection)
  }

  #leave(visit: Visit | undefined): void {
    if (!visit) return
    const { home, credential } = visit
    if (home) this.#leaveHome(home, visit)
    const holds = credential === undefined ? undefined : this.#byCredential.get(credential)
    if (holds?.delete(visit) && holds.size === 0) this.#byCredential.delete(credential!)
  }

  #leaveHome(home: Home, stranger: Connection | Visit): void {
    home.strangers.delete(stranger)
    if (--home.known === 0) this.#homes.delete(home.name)
  }

  #forget(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return
    this.#strangers.delete(connection)
    if (connection.home) this.#leaveHome(connection.home, connection)
    for (const [request, visit] of connection.visits) {
      this.#leave(visit)
      this.#over(request)
    }
    connection.visits.clear()
  }
}

function tooMany(limit: number): Refusal {
  const detail = `more than ${limit} requests and screens under way with this credential; wait for some of them`
  return new Refusal('rate_limited', detail, { hangUp: true })
}

/** What is said now would stand in the midst of an answer. */
const isAnswering = (socket: Socket & { _httpMessage?: ServerResponse | null }): boolean =>
  socket._httpMessage?.headersSent === true
