// The side that dials: it opens a TLS connection for each stream, to the other host or through a relay. Only a host that has
// the move's key is trusted, so a relay can neither read nor change anything.
import type { Duplex } from 'node:stream'
import { connect, type TLSSocket } from 'node:tls'
import { Refusal, refuse } from '@dormouse/contract'
import { identityOf, type MoveAddress, tlsOptions } from './secret.ts'
import { beatName, MoveTransfer, type TransferOptions } from './transfer.ts'

const dialMs = 10_000

/** Where the other host listens, or the connections that a relay joins with it, one for each stream. */
export type Route = MoveAddress | Duplex[]

export interface DialOptions extends TransferOptions {
  route: Route
  key: Buffer
  signal: AbortSignal
}

export class DialledTransfer extends MoveTransfer {
  readonly #options: DialOptions
  /** Connections of a relay that carry no stream yet. */
  readonly #free: Duplex[]

  private constructor(options: DialOptions) {
    super(options)
    this.#options = options
    this.#free = Array.isArray(options.route) ? options.route.map((one) => this.keep(one)) : []
  }

  /** Whether it passes through the control plane. */
  get isRelayed(): boolean {
    return Array.isArray(this.#options.route)
  }

  /** Connected, and with its heartbeat. Refuses if the other host cannot be reached, or does not expect this move. */
  static async open(options: DialOptions): Promise<DialledTransfer> {
    const transfer = new DialledTransfer(options)
    const stop = () => transfer.end(options.signal.reason)
    if (options.signal.aborted) stop()
    options.signal.addEventListener('abort', stop, { once: true })
    transfer.ended.addEventListener('abort', () => options.signal.removeEventListener('abort', stop), { once: true })
    transfer.beat(await transfer.open(beatName))
    return transfer
  }

  /** Another stream of this move. */
  async open(name: string): Promise<TLSSocket> {
    const { moveId, key } = this.#options
    this.ended.throwIfAborted()
    const socket = connect({
      ...this.#next(),
      ...tlsOptions,
      checkServerIdentity: () => undefined,
      pskCallback: () => ({ psk: key, identity: identityOf(moveId, name) }),
    })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(() => reject(new Error(`no answer within ${dialMs} ms`)), dialMs)
    socket.once('secureConnect', resolve).once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
    let connected = this.isRelayed
    socket.once('connect', () => {
      connected = true
    })
    try {
      this.keep(socket)
      await promise
      return socket.setNoDelay(true)
    } catch (cause) {
      this.end(cause as Error)
      throw Object.assign(refusalOf(connected), { cause })
    } finally {
      clearTimeout(timer)
    }
  }

  /** What the next stream runs over. */
  #next(): MoveAddress | { socket: Duplex } {
    const { route } = this.#options
    if (!Array.isArray(route)) return route
    const socket = this.#free.shift()
    return socket ? { socket } : refuse('hypervisor_failed', 'the move has more streams than the relay')
  }
}

/** If nothing listens, another connection between the hosts may do. A host that closes the connection has no such move. */
const refusalOf = (connected: boolean): Refusal =>
  connected
    ? new Refusal('hypervisor_failed', 'the other host does not expect this move')
    : new Refusal('move_unreachable', 'the other host could not be reached for the move')
