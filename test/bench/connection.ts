// A client that costs little: one request at a time over one connection, no more parsing than the length of a response.
// A load generator shares the machine with what it measures.
import { connect, type Socket } from 'node:net'

export interface Answer {
  status: number
  body: string
}

const headEnd = '\r\n\r\n'

export class Connection {
  readonly #socket: Socket
  readonly #head: string
  #received: Buffer[] = []
  #length = 0
  /** Length of the whole response; undefined until its header is there, 0 if it is chunked. */
  #expected: number | undefined
  #bodyStart = 0
  #waiting: PromiseWithResolvers<Answer> | undefined
  #broken: Error | undefined

  constructor(url: string, key?: string) {
    const { hostname, port } = new URL(url)
    this.#head = `host: ${hostname}:${port}\r\n${key ? `authorization: Bearer ${key}\r\n` : ''}`
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true })
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    this.#socket.on('error', (error) => this.#fail(error))
    this.#socket.on('close', () => this.#fail(new Error('the connection was closed')))
  }

  /** Whether it can take another request. */
  get isOpen(): boolean {
    return this.#broken === undefined
  }

  /** Sends one request; the one before must have been answered. */
  send(method: string, path: string, body?: string, headers = ''): Promise<Answer> {
    if (this.#broken) return Promise.reject(this.#broken)
    this.#waiting = Promise.withResolvers()
    const type = body === undefined ? '' : 'content-type: application/json\r\n'
    const length = method === 'GET' ? '' : `content-length: ${Buffer.byteLength(body ?? '')}\r\n`
    this.#socket.write(`${method} ${path} HTTP/1.1\r\n${this.#head}${headers}${type}${length}\r\n${body ?? ''}`)
    return this.#waiting.promise
  }

  close(): void {
    this.#socket.destroy()
  }

  #receive(chunk: Buffer): void {
    this.#received.push(chunk)
    this.#length += chunk.length
    if (this.#expected === undefined) this.#readHead()
    if (this.#expected !== undefined && this.#isWhole(chunk)) this.#answer()
  }

  #readHead(): void {
    const all = this.#received.length === 1 ? this.#received[0]! : Buffer.concat(this.#received)
    const end = all.indexOf(headEnd)
    if (end < 0) return
    this.#received = [all]
    this.#bodyStart = end + headEnd.length
    const length = /content-length: (\d+)/i.exec(all.toString('latin1', 0, end))?.[1]
    this.#expected = length === undefined ? 0 : this.#bodyStart + Number(length)
  }

  #isWhole(last: Buffer): boolean {
    if (this.#expected) return this.#length >= this.#expected
    // The end of a chunked body may be divided over two packets; it is five bytes.
    const tail = last.length >= 5 ? last : Buffer.concat(this.#received).subarray(-5)
    return tail.subarray(-5).toString('latin1') === '0\r\n\r\n'
  }

  #answer(): void {
    const all = this.#received.length === 1 ? this.#received[0]! : Buffer.concat(this.#received)
    const answer = {
      status: Number(all.toString('latin1', 9, 12)),
      body: all.toString('utf8', this.#bodyStart),
    }
    this.#received = []
    this.#length = 0
    this.#expected = undefined
    this.#waiting?.resolve(answer)
  }

  #fail(error: Error): void {
    this.#broken ??= error
    this.#waiting?.reject(this.#broken)
  }
}
