// The side that listens: only on the address that the operator names, and only while a move to this host is expected. It takes
// the connections of a relay, too. A connection proves by the move's key which expected move it is for, or it is closed.
import { constants } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from 'node:tls'
import { refuse } from '@dormouse/contract'
import type { BytePace, Log } from '@dormouse/process'
import { Callers } from './callers.ts'
import { type MoveAddress, readIdentity, tlsOptions } from './secret.ts'
import { beatName, MoveTransfer, type TransferOptions, type TransferTimes } from './transfer.ts'

const handshakeMs = 5_000
/** More streams than a move has. */
const maxStreams = 16
/** How long the other host may take to dial. */
const firstBeatMs = 120_000

export interface ListenerOptions {
  /** undefined listens nowhere: moves come over relays only. */
  listen: MoveAddress | undefined
  pace: BytePace
  log: Log
  times?: TransferTimes
}

export interface Expectation {
  moveId: string
  key: Buffer
  /** A stream that the other host has opened. Its bytes wait until they are read. */
  onStream: (name: string, stream: TLSSocket, transfer: MoveTransfer) => void
}

class ExpectedTransfer extends MoveTransfer {
  key: Buffer
  readonly #onStream: Expectation['onStream']
  readonly #late: NodeJS.Timeout
  #streams = 0

  constructor({ key, onStream }: Expectation, options: TransferOptions) {
    super(options)
    this.key = key
    this.#onStream = onStream
    this.#late = setTimeout(() => this.end(new Error('the other host did not connect')), firstBeatMs)
    this.ended.addEventListener('abort', () => clearTimeout(this.#late), { once: true })
  }

  /** The other host tries again, and gets the whole time to dial. */
  rekey(key: Buffer): void {
    this.key = key
    if (this.#streams === 0) this.#late.refresh()
  }

  take(name: string, stream: TLSSocket): void {
    this.keep(stream)
    if (++this.#streams > maxStreams) {
      this.end(new Error(`the other host opened more than ${maxStreams} streams`))
    } else if (name === beatName) {
      clearTimeout(this.#late)
      this.beat(stream)
    } else {
      this.#onStream(name, stream, this)
    }
  }
}

export class MoveListener {
  readonly #options: ListenerOptions
  readonly #expected = new Map<string, ExpectedTransfer>()
  readonly #callers = new Callers()
  /** Set by the handshake: which of ours a connection is for. */
  readonly #proved = new WeakMap<TLSSocket, { moveId: string; name: string }>()
  #server: Promise<Server> | undefined
  #tls: TlsServer | undefined

  constructor(options: ListenerOptions) {
    this.#options = options
  }

  /** Whether other hosts can dial this one. */
  get isOpen(): boolean {
    return this.#options.listen !== undefined
  }

  /** Listens for this move; an earlier expectation of it ends. Returns if the other host can dial, null for nowhere. */
  async expect(expectation: Expectation): Promise<{ transfer: MoveTransfer; address: MoveAddress | null }> {
    const { listen, pace, log, times } = this.#options
    const { moveId } = expectation
    this.#expected.get(moveId)?.end(new Error('the move was prepared again'))
    const transfer = new ExpectedTransfer(expectation, { moveId, pace, log, ...(times && { times }) })
    this.#expected.set(moveId, transfer)
    transfer.ended.addEventListener('abort', () => this.#forget(moveId, transfer), { once: true })
    if (!listen) return { transfer, address: null }
    try {
      const { port } = (await this.#listen(listen)).address() as AddressInfo
      return { transfer, address: { host: listen.host, port } }
    } catch (error) {
      transfer.end(error as Error)
      throw error
    }
  }

  /** The move's key from now on; streams that are open stay. */
  rekey(moveId: string, key: Buffer): void {
    this.#expected.get(moveId)?.rekey(key)
  }

  /** Takes the move's streams from connections of a relay, too. They close with the move. */
  relay(moveId: string, connections: Duplex[]): void {
    const transfer = this.#expected.get(moveId)
    for (const connection of connections) {
      if (transfer) void this.#relayed(transfer.keep(connection))
      else connection.destroy()
    }
  }

  /** The handshake's timeout begins with its first byte: the other host may open the stream much later. */
  async #relayed(connection: Duplex): Promise<void> {
    await once(connection, 'readable').catch(() => undefined)
    // Only in the next turn does Node let the bytes flow again after the last listener for `readable` is removed.
    await nextTurn()
    if (!connection.destroyed) this.#acceptor().emit('connection', connection)
  }

  close(): void {
    for (const transfer of this.#expected.values()) transfer.end(new Error('the agent was closed'))
  }

  async #listen(address: MoveAddress): Promise<Server> {
    this.#server ??= this.#open(address)
    try {
      return await this.#server
    } catch (error) {
      this.#server = undefined
      this.#options.log.error({ err: error, ...address }, 'the address for moves could not be listened on')
      return refuse(
        'hypervisor_failed',
        'the host cannot listen on DORMOUSE_AGENT_MOVE_ADDRESS; its log names the cause',
      )
    }
  }

  /** Makes a stream of a connection that has the key. It does not listen by itself. */
  #acceptor(): TlsServer {
    if (this.#tls) return this.#tls
    const tls = createTlsServer({
      ...tlsOptions,
      // Without tickets no session is resumed: each connection has to prove that it has the key.
      secureOptions: constants.SSL_OP_NO_TICKET,
      handshakeTimeout: handshakeMs,
      pskCallback: (socket, identity) => this.#keyFor(socket, identity),
    })
    tls.on('secureConnection', (socket) => this.#proven(socket))
    tls.on('tlsClientError', (error, socket) => {
      this.#options.log.debug({ why: error.message }, 'a connection to the address for moves was refused')
      socket.destroy()
    })
    this.#tls = tls
    return tls
  }

  async #open(address: MoveAddress): Promise<Server> {
    const tls = this.#acceptor()
    // A connection above a limit costs no handshake.
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => socket.destroy())
      if (this.#callers.admit(socket)) tls.emit('connection', socket)
    })
    server.listen(address.port, address.host)
    await once(server, 'listening')
    server.on('error', (error) => this.#options.log.error({ err: error }, 'the address for moves failed'))
    return server
  }

  #keyFor(socket: TLSSocket, identity: string): Buffer | null {
    const of = readIdentity(identity)
    const transfer = of && this.#expected.get(of.moveId)
    if (!transfer) return null
    this.#proved.set(socket, of)
    return transfer.key
  }

  #proven(socket: TLSSocket): void {
    this.#callers.proved(socket)
    socket.on('error', () => socket.destroy())
    const of = this.#proved.get(socket)
    const transfer = of && this.#expected.get(of.moveId)
    if (!of || !transfer) socket.destroy()
    else transfer.take(of.name, socket.setNoDelay(true))
  }

  /** Without a move that is expected, nothing listens. */
  #forget(moveId: string, transfer: ExpectedTransfer): void {
    if (this.#expected.get(moveId) === transfer) this.#expected.delete(moveId)
    if (this.#expected.size > 0) return
    const server = this.#server
    this.#server = undefined
    this.#callers.close()
    server?.then((open) => open.close()).catch(() => undefined)
  }
}
