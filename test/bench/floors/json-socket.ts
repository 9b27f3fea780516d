// One JSON value per line over a Unix socket, the protocol of QEMU's monitor (QMP) and of its guest agent. One command at a
// time.
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { waitFor } from '../../wait-for.ts'

interface Answer {
  return?: unknown
  error?: { desc: string }
  event?: string
}

export class JsonSocket {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#lines = createInterface(socket)[Symbol.asyncIterator]()
  }

  /** As soon as a program listens there. */
  static async open(path: string): Promise<JsonSocket> {
    const socket = await waitFor(`a listener on ${path}`, () => connected(path))
    return new JsonSocket(socket)
  }

  /** The next line. */
  async next(): Promise<Answer> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('the socket closed')
    return JSON.parse(value) as Answer
  }

  /** What a command returns; events before it are passed over. Rejects with the program's error. */
  async ask(execute: string, args: object = {}): Promise<unknown> {
    this.#socket.write(`${JSON.stringify({ execute, arguments: args })}\n`)
    for (;;) {
      const { event, error, return: returned } = await this.next()
      if (event) continue
      if (error) throw new Error(`${execute}: ${error.desc}`)
      return returned
    }
  }

  close(): void {
    this.#socket.destroy()
  }
}

function connected(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.on('connect', () => resolve(socket)).on('error', () => resolve(undefined))
  })
}
