// Limits concurrent connections: per address, per credential and in total. An unauthenticated client counts by its address,
// and the oldest is evicted for the next, so that a new client can always authenticate. An authenticated request or
// WebSocket counts by its credential while it lasts. Knows no route, and credentials only by name.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'
import { type Addresses, countedAs } from './addresses.ts'
import type { App } from './app.ts'

export interface ConnectionLimits {
  perAddress: number
  perCredential: number
  total: number
}

/** The connections of one address. Dropped with the last one. */
interface AddressEntry {
  name: string
  /** Unauthenticated connections, or requests through a proxy, the oldest first. */
  unauthenticated: Set<Connection | ActiveRequest>
  /** All that refer to it, authenticated or not. */
  references: number
}

interface Connection {
  socket: Socket
  /** Undefined for a proxy's connection: its requests have addresses of their own. */
  address: AddressEntry | undefined
  requests: Map<IncomingMessage, ActiveRequest>
  /** How many of its requests are authenticated. */
  authenticated: number
  isUpgraded: boolean
}

/** A request in flight, or a WebSocket. */
interface ActiveRequest {
  connection: Connection
  address: AddressEntry | undefined
  credential: string | undefined
}

/** Refuses a connection above a limit, and closes it. */
export type Evict = (socket: Socket) => void

export class Connections {
  readonly #limits: ConnectionLimits
  readonly #addresses: Addresses
  readonly #evict: Evict
  readonly #over: (request: IncomingMessage) => void
  readonly #open = new Map<Socket, Connection>()
  readonly #addressEntries = new Map<string, AddressEntry>()
  /** Connections without an authenticated request, the oldest such first. */
  readonly #unauthenticated = new Set<Connection>()
  readonly #byCredential = new Map<string, Set<ActiveRequest>>()

  /** `over` is called when a request has its response, or its connection has closed. */
  constructor(options: {
    limits: ConnectionLimits
    addresses: Addresses
    evict: Evict
    over?: (request: IncomingMessage) => void
  }) {
    this.#limits = options.limits
    this.#addresses = options.addresses
    this.#evict = options.evict
    this.#over = options.over ?? (() => undefined)
  }

  /** Open connections. */
  get count(): number {
    return this.#open.size
  }

  /** Counts every connection of the server, and its requests until their responses. */
  watch(app: App): void {
    const server: Server = app.server
    server.on('connection', (socket: Socket) => this.#accept(socket))
    server.prependListener('upgrade', ({ socket }: IncomingMessage) => {
      const connection = this.#open.get(socket)
      if (connection) connection.isUpgraded = true
    })
    app.addHook('onResponse', (request, _reply, done) => {
      this.#end(request.raw)
      done()
    })
  }

  /** Counts an unauthenticated request by the address that its proxy names. Without a proxy its connection counts already. */
  countByAddress(request: IncomingMessage): void {
    const connection = this.#open.get(request.socket)
    if (!connection || connection.address || connection.requests.has(request)) return
    const address = this.#entryOf(this.#addresses.of(request))
    const active = { connection, address, credential: undefined }
    connection.requests.set(request, active)
    this.#addTo(address, active)
  }

  /** Counts a request by its credential from now on. Throws `rate_limited` above the limit. */
  countByCredential(request: IncomingMessage, credential: string, limit = this.#limits.perCredential): void {
    const connection = this.#open.get(request.socket)
    if (!connection) return
    const holds = this.#byCredential.get(credential) ?? new Set()
    if (holds.size >= limit) throw tooMany(limit)
    this.#byCredential.set(credential, holds)
    this.#leave(connection.requests.get(request))
    const active = { connection, address: undefined, credential }
    connection.requests.set(request, active)
    holds.add(active)
    if (connection.authenticated++ > 0) return
    this.#unauthenticated.delete(connection)
    connection.address?.unauthenticated.delete(connection)
  }

  /** The owner of the request's bytes: its credential or, while unauthenticated, its address. */
  ownerOf(request: IncomingMessage): { name: string; isAuthenticated: boolean } {
    const connection = this.#open.get(request.socket)
    const active = connection?.requests.get(request)
    if (active?.credential !== undefined) return { name: `credential ${active.credential}`, isAuthenticated: true }
    // Registered, so that its end is noticed.
    if (connection && !active)
      connection.requests.set(request, { connection, address: undefined, credential: undefined })
    return { name: `address ${this.#addresses.of(request)}`, isAuthenticated: false }
  }

  /** Closes a connection to free capacity. */
  evict(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (connection) this.#forget(connection)
    if (connection?.isUpgraded || isAnswering(socket)) socket.destroy()
    else this.#evict(socket)
  }

  #accept(socket: Socket): void {
    const isProxy = this.#addresses.isProxy(socket)
    const address = isProxy ? undefined : this.#entryOf(countedAs(socket.remoteAddress))
    const connection: Connection = { socket, address, requests: new Map(), authenticated: 0, isUpgraded: false }
    this.#open.set(socket, connection)
    socket.once('close', () => this.#forget(connection))
    if (this.#open.size > this.#limits.total) this.#makeRoom(socket)
    if (this.#open.has(socket)) this.#markUnauthenticated(connection)
  }

  /** No request on it is authenticated now: it becomes the newest candidate for eviction. */
  #markUnauthenticated(connection: Connection): void {
    this.#unauthenticated.add(connection)
    if (connection.address) this.#addTo(connection.address, connection)
  }

  #addTo(address: AddressEntry, member: Connection | ActiveRequest): void {
    address.unauthenticated.add(member)
    if (address.unauthenticated.size <= this.#limits.perAddress) return
    const [oldest] = address.unauthenticated
    this.evict('socket' in oldest! ? oldest.socket : oldest!.connection.socket)
  }

  /** Evicts the oldest unauthenticated connection; otherwise the oldest of the largest credential; otherwise the new one. */
  #makeRoom(newcomer: Socket): void {
    const [oldest] = this.#unauthenticated
    const [ofMost] = [...this.#byCredential.values()].reduce<Set<ActiveRequest>>(
      (most, some) => (some.size > most.size ? some : most),
      new Set(),
    )
    this.evict(oldest?.socket ?? ofMost?.connection.socket ?? newcomer)
  }

  #entryOf(name: string): AddressEntry {
    const address = this.#addressEntries.get(name) ?? { name, unauthenticated: new Set(), references: 0 }
    address.references++
    this.#addressEntries.set(name, address)
    return address
  }

  #end(request: IncomingMessage): void {
    const connection = this.#open.get(request.socket)
    const active = connection?.requests.get(request)
    this.#over(request)
    if (!connection || !active) return
    connection.requests.delete(request)
    this.#leave(active)
    if (active.credential !== undefined && --connection.authenticated === 0) this.#markUnauthenticated(connection)
  }

  #leave(active: ActiveRequest | undefined): void {
    if (!active) return
    const { address, credential } = active
    if (address) this.#leaveAddress(address, active)
    const holds = credential === undefined ? undefined : this.#byCredential.get(credential)
    if (holds?.delete(active) && holds.size === 0) this.#byCredential.delete(credential!)
  }

  #leaveAddress(address: AddressEntry, member: Connection | ActiveRequest): void {
    address.unauthenticated.delete(member)
    if (--address.references === 0) this.#addressEntries.delete(address.name)
  }

  #forget(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return
    this.#unauthenticated.delete(connection)
    if (connection.address) this.#leaveAddress(connection.address, connection)
    for (const [request, active] of connection.requests) {
      this.#leave(active)
      this.#over(request)
    }
    connection.requests.clear()
  }
}

function tooMany(limit: number): Refusal {
  const detail = `more than ${limit} concurrent requests and screens with this credential; wait for some to end`
  return new Refusal('rate_limited', detail, { hangUp: true })
}

/** Whether a response is being sent: a problem now would be read as part of it. */
const isAnswering = (socket: Socket & { _httpMessage?: ServerResponse | null }): boolean =>
  socket._httpMessage?.headersSent === true
