// One WebSocket of an exec: its messages, and a watch that notices a dead connection. Knows neither reconnection nor HTTP.
import type {
  AttachNote,
  AttachRequest,
  attachAliveEveryMs,
  attachChannels,
  attachProtocol,
  ExecStream,
} from '@dormouse/contract'
import { deferred } from './deferred.ts'

// The SDK takes only types from the contract: these are its values, as the compiler checks.
export const protocol = 'dormouse.exec.v1' satisfies typeof attachProtocol
const channels: typeof attachChannels = { stdin: 0, stdout: 1, stderr: 2, control: 3 }
const aliveEveryMs: typeof attachAliveEveryMs = 5_000

/** Also for the socket to open. */
const silenceLimitMs = 4 * aliveEveryMs

export type AttachMessage = { stream: ExecStream; bytes: Uint8Array<ArrayBuffer> } | AttachNote

export class AttachSocket {
  readonly #socket: WebSocket
  readonly #received: AttachMessage[] = []
  #waiting: (() => void) | undefined
  #silence: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** The socket, once it is open; undefined if it does not open. */
  static async open(socket: WebSocket, signal?: AbortSignal): Promise<AttachSocket | undefined> {
    const attached = new AttachSocket(socket)
    const { promise, resolve } = deferred<boolean>()
    const stop = () => resolve(false)
    socket.addEventListener('open', () => resolve(true))
    socket.addEventListener('close', stop)
    signal?.addEventListener('abort', stop)
    const isOpen = await promise
    signal?.removeEventListener('abort', stop)
    if (!isOpen) attached.close()
    return isOpen ? attached : undefined
  }

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.binaryType = 'arraybuffer'
    socket.addEventListener('message', ({ data }) => this.#receive(data))
    // `close` follows.
    socket.addEventListener('error', () => undefined)
    socket.addEventListener('close', () => this.#over())
    this.#listen()
  }

  /** The next message; undefined once the socket is closed and all were read. One call at a time. */
  async next(): Promise<AttachMessage | undefined> {
    while (this.#received.length === 0 && !this.#isClosed) {
      const { promise, resolve } = deferred<void>()
      this.#waiting = resolve
      await promise
    }
    return this.#received.shift()
  }

  input(bytes: Uint8Array): void {
    this.#send(channels.stdin, bytes)
  }

  request(request: AttachRequest): void {
    this.#send(channels.control, new TextEncoder().encode(JSON.stringify(request)))
  }

  /** Nothing is received any more. */
  close(): void {
    this.#over()
    this.#socket.close()
  }

  #send(channel: number, bytes: Uint8Array): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    const message = new Uint8Array(bytes.length + 1)
    message[0] = channel
    message.set(bytes, 1)
    this.#socket.send(message)
  }

  #receive(data: unknown): void {
    if (this.#isClosed || !(data instanceof ArrayBuffer) || data.byteLength === 0) return
    this.#listen()
    const bytes = new Uint8Array(data)
    const body = bytes.subarray(1)
    if (bytes[0] === channels.stdout) this.#received.push({ stream: 'stdout', bytes: body })
    else if (bytes[0] === channels.stderr) this.#received.push({ stream: 'stderr', bytes: body })
    else if (bytes[0] === channels.control) this.#hear(new TextDecoder().decode(body))
    this.#waiting?.()
  }

  #hear(text: string): void {
    try {
      this.#received.push(JSON.parse(text) as AttachNote)
    } catch {
      this.close()
    }
  }

  /** A connection that died without a sign is closed after a while. */
  #listen(): void {
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => this.close(), silenceLimitMs)
  }

  #over(): void {
    this.#isClosed = true
    clearTimeout(this.#silence)
    this.#waiting?.()
  }
}
