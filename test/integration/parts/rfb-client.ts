// A program that looks at a desktop's screen: RFB over a WebSocket, by hand, so that a test can also say what no real
// client would. Knows nothing of claims.
import { type ScreenNote, screenProtocol, type TicketNote, ticketKept } from '@dormouse/contract'
import { WebSocket } from 'ws'
import { waitFor } from '../../wait-for.ts'

export interface RfbOptions {
  /** Opens it as the page does: it gets tickets, and confirms them. If it is `deaf`, it never confirms one. */
  page?: boolean | 'deaf'
  origin?: string
}

interface Closing {
  code: number
  reason: string
}

export class RfbClient {
  readonly socket: WebSocket
  readonly notes: TicketNote[] = []
  readonly #over: Promise<Closing>
  #closing: Closing | undefined
  #received = Buffer.alloc(0)
  #picture: Buffer = Buffer.alloc(0)
  width = 0
  height = 0

  private constructor(url: string, { page = false, origin }: RfbOptions) {
    this.socket = new WebSocket(url, page ? [screenProtocol] : [], { ...(origin && { origin }) })
    this.socket.on('message', (data, isBinary) => {
      if (isBinary) this.#received = Buffer.concat([this.#received, data as Buffer])
      else this.#note(JSON.parse((data as Buffer).toString()) as ScreenNote, page === true)
    })
    const { promise, resolve } = Promise.withResolvers<Closing>()
    this.#over = promise
    const end = (closing: Closing) => {
      this.#closing ??= closing
      resolve(this.#closing)
    }
    this.socket.on('error', (error) => end({ code: 0, reason: error.message }))
    this.socket.on('close', (code, reason) => end({ code, reason: reason.toString() }))
  }

  #note(note: ScreenNote, keeps: boolean): void {
    if (!('ticket' in note)) return
    this.notes.push(note)
    if (keeps) this.socket.send(ticketKept)
  }

  /** Opens the socket and says nothing; whether it may stay is seen by `closed`. */
  static dial(url: string, options: RfbOptions = {}): RfbClient {
    return new RfbClient(url, options)
  }

  /** Opens the socket and completes the handshake, until frames can be requested. */
  static async connect(url: string, options: RfbOptions = {}): Promise<RfbClient> {
    const client = new RfbClient(url, options)
    await client.#greet()
    return client
  }

  /** How it was closed; if it is not, the refusal says what came instead. */
  get closed(): Promise<Closing> {
    return waitFor('the screen’s socket to be closed', () => this.#closing).catch((error: Error) => {
      throw new Error(`${error.message}; ${this.notes.length} notes and ${this.unread} bytes unread have come`)
    })
  }

  /** How many bytes have come that nobody asked for yet. */
  get unread(): number {
    return this.#received.length
  }

  send(...bytes: number[]): void {
    this.socket.send(Buffer.from(bytes))
  }

  /** A key goes down and up. */
  type(keysym: number): void {
    const sym = [keysym >>> 24, (keysym >>> 16) & 255, (keysym >>> 8) & 255, keysym & 255]
    this.send(4, 1, 0, 0, ...sym)
    this.send(4, 0, 0, 0, ...sym)
  }

  /** A key goes down, or up, by its scancode. */
  key(scancode: number, isDown: boolean): void {
    this.send(255, 0, 0, isDown ? 1 : 0, 0, 0, 0, 0, 0, 0, 0, scancode)
  }

  point(x: number, y: number, buttons: number): void {
    this.send(5, buttons, x >> 8, x & 255, y >> 8, y & 255)
  }

  ask(incremental = false): void {
    this.send(
      3,
      incremental ? 1 : 0,
      0,
      0,
      0,
      0,
      this.width >> 8,
      this.width & 255,
      this.height >> 8,
      this.height & 255,
    )
  }

  /** The whole picture as raw 32-bit pixels, after what changed of it has come. */
  async frame(incremental = false): Promise<Buffer> {
    this.ask(incremental)
    const head = await this.#take(4)
    if (head[0] !== 0) throw new Error('the screen says something else')
    for (let left = head.readUInt16BE(2); left > 0; left--) await this.#takeRectangle()
    return this.#picture
  }

  async #takeRectangle(): Promise<void> {
    const head = await this.#take(12)
    const [x, y, width, height] = [0, 2, 4, 6].map((at) => head.readUInt16BE(at)) as [number, number, number, number]
    if (head.readInt32BE(8) !== 0) throw new Error('what changed is not raw')
    const pixels = await this.#take(width * height * 4)
    if (pixels.length === this.#picture.length) {
      this.#picture = pixels
      return
    }
    // The one before may be in somebody's hands.
    this.#picture = Buffer.from(this.#picture)
    for (let row = 0; row < height; row++) {
      pixels.copy(this.#picture, ((y + row) * this.width + x) * 4, row * width * 4, (row + 1) * width * 4)
    }
  }

  /** What the desktop copied, if that is its next message. */
  async copied(): Promise<string> {
    const head = await this.#take(8)
    if (head[0] !== 3) throw new Error('the desktop says something else')
    return (await this.#take(head.readUInt32BE(4))).toString('latin1')
  }

  close(): void {
    this.socket.close(1000)
  }

  async #greet(): Promise<void> {
    await this.#take(12)
    this.socket.send(Buffer.from('RFB 003.008\n'))
    await this.#take(2)
    this.send(1)
    await this.#take(4)
    this.send(0)
    const init = await this.#take(24)
    this.width = init.readUInt16BE(0)
    this.height = init.readUInt16BE(2)
    this.#picture = Buffer.alloc(this.width * this.height * 4)
    await this.#take(init.readUInt32BE(20))
  }

  async #take(length: number): Promise<Buffer> {
    const over = this.#over.then(({ code, reason }) => {
      throw new Error(`the socket was closed: ${code} ${reason}`)
    })
    over.catch(() => undefined)
    await Promise.race([waitFor(`${length} bytes of the screen`, () => this.#received.length >= length), over])
    const taken = this.#received.subarray(0, length)
    this.#received = this.#received.subarray(length)
    return taken
  }
}
