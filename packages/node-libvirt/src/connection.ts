/**
 * One connection to the daemon: matches replies to calls and keeps it alive. Has at most four
 * calls in flight, since at five the daemon stops reading. When it closes, every pending call settles. Knows no lanes, and
 * never reconnects.
 */
import { connect, type Socket } from 'node:net'
import { ConnectionLost, LibvirtError } from './errors.ts'
import { encodeFrame, type Frame, FrameSplitter, messageStatus, messageType } from './frames.ts'
import {
  type Args,
  errorBody,
  type Procedure,
  type ProcedureName,
  procedures,
  programs,
  type Result,
} from './protocol.ts'
import { type Codec, record, XdrReader } from './xdr.ts'

/** The daemon allows five requests per connection, and counts the one that it is about to read. */
export const callsInFlight = 4

export type Address = { socketPath: string } | { host: string; port: number }

export interface ConnectionOptions {
  address: Address
  /** Which driver to open. */
  uri: string
  /** For connecting, authenticating and opening together. */
  openTimeoutMs: number
  /** Interval of keepalives on a silent connection. After five without a response it is closed. */
  keepaliveMs?: number
  onEvent?: (procedure: number, body: XdrReader) => void
  onClose?: (reason: Error) => void
}

interface Waiting {
  name: ProcedureName
  settle: (frame: Frame) => void
  reject: (error: Error) => void
}

const empty = record({})
const keepalivesUnanswered = 5
const noAuthentication = 0
const polkit = 2

export class Connection {
  readonly #options: ConnectionOptions
  readonly #socket: Socket
  readonly #splitter = new FrameSplitter((frame) => this.#receive(frame))
  readonly #waiting = new Map<number, Waiting>()
  #serial = 0
  #closed: Error | undefined
  #keepalive: NodeJS.Timeout | undefined
  #received = true
  #unanswered = 0

  private constructor(options: ConnectionOptions) {
    this.#options = options
    const { address } = options
    this.#socket = 'socketPath' in address ? connect(address.socketPath) : connect(address.port, address.host)
    this.#socket.setNoDelay(true)
    this.#socket.on('data', (chunk) => this.#read(chunk))
    this.#socket.on('error', (error) => this.close(error))
    this.#socket.on('close', () => this.close(new Error('the daemon closed the connection')))
  }

  /** Connects, authenticates and opens the driver; rejects with ConnectionLost or LibvirtError. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const connection = new Connection(options)
    const deadline = setTimeout(
      () => connection.close(new Error('the daemon did not respond in time')),
      options.openTimeoutMs,
    )
    try {
      await connection.#authenticate()
      await connection.call('connectOpen', { uri: options.uri, flags: 0 })
      if (options.keepaliveMs) connection.#keepAlive(options.keepaliveMs)
      return connection
    } catch (error) {
      const reason = connection.#closed ?? (error as Error)
      connection.close(reason)
      throw reason instanceof LibvirtError ? reason : new ConnectionLost(false, undefined, reason)
    } finally {
      clearTimeout(deadline)
    }
  }

  get inFlight(): number {
    return this.#waiting.size
  }

  get closed(): boolean {
    return this.#closed !== undefined
  }

  /** Closes at once. Pending calls settle as sent, with the reason as their cause. */
  close(reason: Error = new Error('closed by us')): void {
    if (this.#closed) return
    this.#closed = reason
    clearInterval(this.#keepalive)
    this.#socket.destroy()
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { name, reject } of waiting) reject(new ConnectionLost(true, name, reason))
    this.#options.onClose?.(reason)
  }

  async #authenticate(): Promise<void> {
    const { types } = await this.call('authList', {})
    if (types.includes(noAuthentication)) return
    if (!types.includes(polkit))
      throw new Error(`the daemon requires an authentication that is not supported (${types.join()})`)
    await this.call('authPolkit', {})
  }

  /** Sends one call and waits for its reply until the connection closes. */
  async call<N extends ProcedureName>(name: N, args: Args<N>): Promise<Result<N>> {
    const { program, number, args: codec, result } = procedures[name] as unknown as Procedure<Args<N>, Result<N>>
    const { promise, resolve, reject } = Promise.withResolvers<Result<N>>()
    if (this.#closed) throw new ConnectionLost(false, name, this.#closed)
    if (this.#waiting.size >= callsInFlight) throw new Error('a fifth call in flight would stall the connection')
    const serial = this.#serial + 1
    const header = { program, procedure: number, type: messageType.call, serial, status: messageStatus.ok }
    const bytes = encodeFrame(header, codec, args)
    this.#serial = serial
    const settle = (frame: Frame) => {
      if (frame.status === messageStatus.error) reject(refusal(name, frame.body))
      else resolve(decode(result, frame.body))
    }
    this.#waiting.set(serial, { name, settle, reject })
    this.#socket.write(bytes)
    return promise
  }

  /** Bytes that do not decode close the connection: nothing after them can be trusted. */
  #read(chunk: Buffer): void {
    this.#received = true
    try {
      this.#splitter.push(chunk)
    } catch (error) {
      this.close(error as Error)
    }
  }

  #receive(frame: Frame): void {
    if (this.#closed) return
    if (frame.program === programs.keepalive) {
      this.#onKeepalive(frame)
    } else if (frame.type === messageType.message) {
      this.#options.onEvent?.(frame.procedure, new XdrReader(frame.body))
    } else if (frame.type === messageType.reply) {
      this.#onReply(frame)
    }
  }

  #onReply(frame: Frame): void {
    const waiting = this.#waiting.get(frame.serial)
    if (!waiting) throw new Error(`a reply to ${frame.serial}, which is no pending call`)
    waiting.settle(frame)
    this.#waiting.delete(frame.serial)
  }

  #keepAlive(intervalMs: number): void {
    this.#keepalive = setInterval(() => {
      this.#unanswered = this.#received ? 0 : this.#unanswered + 1
      this.#received = false
      if (this.#unanswered >= keepalivesUnanswered) this.close(new Error('the daemon is silent'))
      else this.#sendKeepalive(keepaliveProcedure.ping)
    }, intervalMs)
  }

  #sendKeepalive(procedure: number): void {
    const header = { program: programs.keepalive, procedure, type: messageType.message, serial: 0, status: 0 }
    this.#socket.write(encodeFrame(header, empty, {}))
  }

  #onKeepalive({ procedure }: Frame): void {
    if (procedure === keepaliveProcedure.ping) this.#sendKeepalive(keepaliveProcedure.pong)
  }
}

const keepaliveProcedure = { ping: 1, pong: 2 } as const

function decode<T>(codec: Codec<T>, body: Buffer): T {
  const reader = new XdrReader(body)
  const value = codec.read(reader)
  reader.end()
  return value
}

function refusal(procedure: string, body: Buffer): LibvirtError {
  return new LibvirtError({ ...decode(errorBody, body), procedure })
}
