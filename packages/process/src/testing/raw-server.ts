// A server that answers each connection with given bytes, whether they are HTTP or not. For tests of clients of a hostile
// server.
import { createServer, type Socket } from 'node:net'

export type Answer = (socket: Socket, requestHead: string) => void

/** What an attacker may answer in place of a response. Each ends a request by itself. */
export const badAnswers: Record<string, Answer> = {
  'another protocol': (socket) =>
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
  'another protocol, unnamed': (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'),
  'another protocol, with bytes behind it': (socket) =>
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n${'x'.repeat(100_000)}`),
  'early hints without end': (socket) => writeOn(socket, '', 'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n'),
  'continue without end': (socket) => writeOn(socket, '', 'HTTP/1.1 100 Continue\r\n\r\n'),
  'a header without end': (socket) => writeOn(socket, 'HTTP/1.1 200 OK\r\n', `a: ${'b'.repeat(1_000)}\r\n`),
  'one line without end': (socket) => writeOn(socket, 'HTTP/1.1 200 OK\r\na: ', 'b'.repeat(1_000)),
  'a status below 100': (socket) => socket.write('HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n'),
  'a status above 599': (socket) => socket.write('HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n'),
  'no HTTP': (socket) => socket.write('SSH-2.0-OpenSSH_9.9\r\n'),
  'the end of the connection': (socket) => socket.end(),
  'a reset': (socket) => socket.resetAndDestroy(),
}

/** What goes on until the request's own deadline. */
export const silentAnswers: Record<string, Answer> = {
  nothing: () => undefined,
  'half a status line': (socket) => socket.write('HTTP/1.1 2'),
  'half a header': (socket) => socket.write('HTTP/1.1 200 OK\r\na: b\r\n'),
  'one interim response': (socket) => socket.write('HTTP/1.1 102 Processing\r\n\r\n'),
}

/** What begins as a response, and whose body never ends well. */
export const badBodies: Record<string, Answer> = {
  'a body that is cut': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab'),
  'a chunk that is cut': (socket) => socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab'),
  'a body without end': (socket) => writeOn(socket, 'HTTP/1.1 200 OK\r\n\r\n', 'x'.repeat(1_000)),
  'trailers without end': (socket) =>
    writeOn(
      socket,
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n',
      `a: ${'b'.repeat(1_000)}\r\n`,
    ),
  'an extension of a chunk without end': (socket) =>
    writeOn(socket, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;', 'b'.repeat(1_000)),
  'a chunk of no size': (socket) => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n'),
  'compressed bytes': (socket) =>
    socket.end('HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok'),
}

export class RawServer implements AsyncDisposable {
  /** The heads of the requests, oldest first. */
  readonly requests: string[] = []
  answer: Answer
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((socket) => this.#take(socket))

  private constructor(answer: Answer) {
    this.answer = answer
  }

  static async start(answer: Answer): Promise<RawServer> {
    const server = new RawServer(answer)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }

  get url(): string {
    const address = this.#server.address()
    return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`
  }

  /** The number of connections that this side has not closed. */
  get open(): number {
    return this.#sockets.size
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #take(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.#sockets.delete(socket))
    let head = ''
    const read = (bytes: Buffer) => {
      head += bytes.toString('latin1')
      if (!head.includes('\r\n\r\n')) return
      socket.off('data', read)
      socket.resume()
      this.requests.push(head)
      this.answer(socket, head)
    }
    socket.on('data', read)
  }
}

function writeOn(socket: Socket, first: string, again: string): void {
  const more = () => void (socket.destroyed || socket.write(again, () => setImmediate(more)))
  socket.write(first || again, more)
}
