// The side that dials: it opens a TLS connection for each stream. Only a host that has the move's key is trusted.
import { connect, type TLSSocket } from 'node:tls'
import { Refusal } from '@dormouse/contract'
import { beatName, Carrier, type CarrierOptions } from './carrier.ts'
import { identityOf, type MoveAddress, tlsOptions } from './secret.ts'

const dialMs = 10_000

export interface DialOptions extends CarrierOptions {
  address: MoveAddress
  key: Buffer
  signal: AbortSignal
}

export class DialledCarrier extends Carrier {
  readonly #options: DialOptions

  private constructor(options: DialOptions) {
    super(options)
    this.#options = options
  }

  /** Connected, and with its heartbeat. Refuses where the other host cannot be reached, or does not expect this move. */
  static async open(options: DialOptions): Promise<DialledCarrier> {
    const carrier = new DialledCarrier(options)
    const stop = () => carrier.end(options.signal.reason)
    if (options.signal.aborted) stop()
    options.signal.addEventListener('abort', stop, { once: true })
    carrier.ended.addEventListener('abort', () => options.signal.removeEventListener('abort', stop), { once: true })
    carrier.beat(await carrier.open(beatName))
    return carrier
  }

  /** Another stream of this move. */
  async open(name: string): Promise<TLSSocket> {
    const { moveId, key, address } = this.#options
    this.ended.throwIfAborted()
    const socket = connect({
      ...address,
      ...tlsOptions,
      checkServerIdentity: () => undefined,
      pskCallback: () => ({ psk: key, identity: identityOf(moveId, name) }),
    })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(() => reject(new Error(`no answer within ${dialMs} ms`)), dialMs)
    socket.once('secureConnect', resolve).once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
    let connected = false
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
}

/** Where nothing listens, another connection between the hosts may do. A host that closes the connection has no such move. */
const refusalOf = (connected: boolean): Refusal =>
  connected
    ? new Refusal('hypervisor_failed', 'the other host does not expect this move')
    : new Refusal('move_unreachable', 'the other host could not be reached for the move')
