// A proxy between a dialler and its target on loopback that injects faults: a cut, a half-open connection, a delay, or a
// frame repeated, reordered or cut in the middle. Knows WebSocket frames, not their contents.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { FrameSplitter, type Piece } from './frame-splitter.ts'

export type Direction = 'toTarget' | 'toDialler'
type Trick = 'duplicate' | 'reorder' | 'cutMidFrame'

export class FaultProxy {
  readonly #server: Server
  readonly #targetPort: number
  readonly #sockets = new Set<Socket>()
  readonly #tricks: Record<Direction, Trick[]> = { toTarget: [], toDialler: [] }
  #delayMs = 0
  #silent = false

  private constructor(targetPort: number) {
    this.#targetPort = targetPort
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (dialler) => this.#join(dialler))
  }

  /** A proxy on a loopback port of its own. */
  static async start(targetPort: number): Promise<FaultProxy> {
    const proxy = new FaultProxy(targetPort)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Resets every open connection; new ones pass. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** From now on drops everything, including new connections and close frames, and keeps the sockets open: a dead cable. */
  halfOpen(): void {
    this.#silent = true
  }

  /** Delays everything by this long. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs
  }

  /** The next data frame passes twice. */
  duplicateNext(direction: Direction): void {
    this.#tricks[direction].push('duplicate')
  }

  /** The next data frame passes after the one behind it. */
  reorderNext(direction: Direction): void {
    this.#tricks[direction].push('reorder')
  }

  /** Half of the next data frame passes, then the connection is cut. */
  cutMidFrame(direction: Direction): void {
    this.#tricks[direction].push('cutMidFrame')
  }

  /** Ends all faults. Half-open connections are cut, since bytes are missing in them. */
  heal(): void {
    if (this.#silent) this.cut()
    this.#silent = false
    this.#delayMs = 0
    this.#tricks.toTarget = []
    this.#tricks.toDialler = []
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #join(dialler: Socket): void {
    const target = connect({ port: this.#targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    for (const socket of [dialler, target]) {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    }
    this.#carry(dialler, target, 'toTarget')
    this.#carry(target, dialler, 'toDialler')
  }

  #carry(from: Socket, to: Socket, direction: Direction): void {
    const splitter = new FrameSplitter()
    const held: Piece[] = []
    let turn: Promise<void> = Promise.resolve()
    const inTurn = (act: () => void) => {
      const dueAt = performance.now() + this.#delayMs
      turn = turn.then(async () => {
        if (dueAt > performance.now()) await sleep(dueAt - performance.now())
        if (!this.#silent) act()
      })
    }
    from.on('data', (bytes) => {
      for (const piece of splitter.push(bytes)) {
        inTurn(() => this.#pass(piece, held, from, to, direction))
      }
    })
    from.on('end', () => inTurn(() => to.end()))
    // A reset is passed on as a reset; while silent, nothing is.
    from.on('error', () => inTurn(() => to.resetAndDestroy()))
    from.on('close', () => inTurn(() => to.end()))
  }

  #pass(piece: Piece, held: Piece[], from: Socket, to: Socket, direction: Direction): void {
    const trick = piece.isData ? this.#tricks[direction].shift() : undefined
    if (trick === 'reorder') return void held.push(piece)
    if (trick === 'cutMidFrame') {
      to.end(piece.bytes.subarray(0, Math.ceil(piece.bytes.length / 2)))
      return void from.resetAndDestroy()
    }
    write(from, to, piece)
    if (trick === 'duplicate') write(from, to, piece)
    if (piece.isData) for (const late of held.splice(0)) write(from, to, late)
  }
}

function write(from: Socket, to: Socket, { bytes }: Piece): void {
  if (to.destroyed || to.write(bytes)) return
  from.pause()
  to.once('drain', () => from.resume())
}
