// One client of a screen: sends keys and pointer, and keeps a copy of its pixels. Knows no actions and no desktop. It remembers
// what it holds down, so that it can release it.
import { EventEmitter, once } from 'node:events'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Point, type Region, refuse, screenPixelsMax } from '@dormouse/contract'
import { ByteReader } from '../mechanics/byte-reader.ts'
import { before } from '../mechanics/deadlines.ts'
import { Framebuffer } from './framebuffer.ts'
import { Locks } from './locks.ts'
import { RfbClipboard } from './rfb-clipboard.ts'
import * as rfb from './rfb-messages.ts'

interface Events {
  /** The guest has switched lights of its keyboard. */
  leds: []
  /** A whole update was read. */
  update: []
  resized: []
  ended: []
}

const pixelBytes = 4
/** How much of a rectangle is kept in addition to the picture. */
const bandBytes = 1024 * 1024
const maxCutBytes = 1024 * 1024
const maxNameBytes = 64 * 1024
const greetMs = 10_000
/** A screen that does not answer is one of a guest that is paused or ended. */
const releaseMs = 5_000

export class RfbSession extends EventEmitter<Events> {
  readonly #socket: Duplex
  readonly #reader: ByteReader
  /** Whether a picture of this many bytes may be kept. */
  readonly #mayKeep: (bytes: number) => boolean
  #frame = new Framebuffer({ width: 1, height: 1 })
  readonly #held = new Set<number>()
  #pointer: Point | undefined
  #mask = 0
  /** QEMU passes the keys that were sent on to the guest until then. */
  #keysUntil = 0
  #leds: number | undefined
  #hasKeys = false
  /** Pixels that have come since the last whole picture was requested. */
  #freshPixels = 0
  #refreshing: Promise<void> = Promise.resolve()
  /** The refresh that has not begun. */
  #next: Promise<void> | undefined
  readonly #watchers = new Set<(region: Region) => void>()
  #isAsked = false
  /** Caps Lock and Num Lock. */
  readonly locks = new Locks(this)
  /** What the guest's programs paste, and what they have copied. */
  readonly clipboard = new RfbClipboard((message) => this.#send(message), maxCutBytes)
  #isEnded = false

  private constructor(socket: Duplex, mayKeep: (bytes: number) => boolean) {
    super()
    this.#mayKeep = mayKeep
    this.setMaxListeners(0)
    this.#socket = socket
    this.#reader = new ByteReader(socket)
    socket.on('error', () => this.close())
    socket.on('close', () => this.#end())
  }

  /** Introduces itself on a connection that greets first, and waits for the first picture and for the keys. The picture is bounded. */
  static async open(socket: Duplex, mayKeep: (bytes: number) => boolean = () => true): Promise<RfbSession> {
    const session = new RfbSession(socket, mayKeep)
    const timer = setTimeout(() => session.close(), greetMs)
    try {
      await session.#greet()
      void session.#read()
      await session.refresh()
      if (!session.#hasKeys) refuse('guest_unavailable', 'the screen takes no extended key events')
      return session
    } catch (error) {
      session.close()
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  get frame(): Framebuffer {
    return this.#frame
  }
  /** Undefined until this session has moved it. */
  get pointer(): Point | undefined {
    return this.#pointer
  }
  get isEnded(): boolean {
    return this.#isEnded
  }
  /** The buttons that it holds. */
  get mask(): number {
    return this.#mask
  }
  /** The lights of the guest's keyboard, as RFB's bits have them; undefined for a screen that reports none. */
  get leds(): number | undefined {
    return this.#leds
  }
  get holdsAnything(): boolean {
    return this.#held.size > 0 || this.#mask !== 0
  }

  key(code: number, down: boolean): void {
    if (down) this.#held.add(code)
    else this.#held.delete(code)
    if (down) this.locks.pressed(code)
    this.#keysUntil = Math.max(this.#keysUntil, performance.now()) + rfb.qemuKeyMs
    this.#send(rfb.keyEvent(code, down))
  }

  point(at: Point, mask: number): void {
    this.#pointer = at
    this.#mask = mask
    this.#send(rfb.pointerEvent(at, mask))
  }

  /** Releases every key and button that this session holds, the last one first. Returns when the guest has got it. */
  async release(): Promise<void> {
    if (this.#isEnded || !this.holdsAnything) return
    for (const code of [...this.#held].toReversed()) this.key(code, false)
    if (this.#mask !== 0) this.point(this.#pointer ?? { x: 0, y: 0 }, 0)
    // The screen takes messages in their order, so that its answer to a later one is proof.
    await before(performance.now() + releaseMs, this.refresh()).catch(() => undefined)
    await this.keysArrived()
  }

  /** Returns when QEMU has passed on the keys that were sent. */
  async keysArrived(): Promise<void> {
    await sleep(Math.max(0, this.#keysUntil - performance.now()))
  }

  /** Calls `changed` for what differs from then on, until it is disposed. */
  watch(changed: (region: Region) => void): Disposable {
    // A function of its own, so that the same one can watch twice.
    const watcher = (region: Region) => changed(region)
    this.#watchers.add(watcher)
    this.#askForChanges()
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) }
  }

  /**
   * Waits for a picture of the whole screen that was taken after this call. Requests go one after the other: a picture does not
   * name its request. All callers that wait meanwhile share the next one.
   */
  refresh(): Promise<void> {
    this.#next ??= this.#refreshing.then(() => {
      this.#next = undefined
      return this.#refresh()
    })
    this.#refreshing = this.#next.catch(() => undefined)
    return this.#next
  }

  async #refresh(): Promise<void> {
    this.#throwIfEnded()
    this.#freshPixels = 0
    this.#send(rfb.pictureRequest(false, this.#frame.width, this.#frame.height))
    while (!this.#isEnded && this.#freshPixels < this.#frame.width * this.#frame.height) await this.#updated()
    this.#throwIfEnded()
  }

  /** Frees the memory of the picture. The next look fetches it again. */
  forgetPicture(): void {
    const { width, height } = this.#frame
    this.#frame = new Framebuffer({ width, height })
  }

  close(): void {
    this.#socket.destroy()
    this.#end()
  }

  #send(message: Buffer): void {
    this.#throwIfEnded()
    this.#socket.write(message)
  }

  #throwIfEnded(): void {
    if (this.#isEnded) refuse('guest_unavailable', 'the connection to the desktop’s screen was lost')
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.clipboard.end()
    this.emit('update')
    this.emit('leds')
    this.emit('ended')
  }

  async #updated(): Promise<void> {
    if (!this.#isEnded) await once(this, 'update')
  }

  async #greet(): Promise<void> {
    await this.#reader.take(12)
    this.#socket.write('RFB 003.008\n')
    await this.#reader.take((await this.#reader.take(1))[0]!)
    this.#socket.write(Buffer.from([1]))
    if ((await this.#reader.take(4)).readUInt32BE(0) !== 0) throw new Error('the screen refused the connection')
    // Shared: the viewers stay.
    this.#socket.write(Buffer.from([1]))
    const init = await this.#reader.take(24)
    const nameBytes = init.readUInt32BE(20)
    if (nameBytes > maxNameBytes) throw new Error('the screen’s name is too long')
    await this.#reader.take(nameBytes)
    this.#resize(init.readUInt16BE(0), init.readUInt16BE(2))
    this.#socket.write(rfb.pixelFormat)
    const { raw, desktopSize, qemuKeys, qemuLeds, extendedClipboard } = rfb.encodings
    this.#socket.write(rfb.setEncodings([raw, desktopSize, qemuKeys, qemuLeds, extendedClipboard]))
  }

  #resize(width: number, height: number): void {
    if (width * height > screenPixelsMax) refuse('screen_too_large')
    if (width === this.#frame.width && height === this.#frame.height) return
    if (!this.#mayKeep(width * height * pixelBytes)) refuse('pictures_busy', 'too many large screens are in use')
    this.#frame = new Framebuffer({ width, height })
    this.#freshPixels = 0
    this.emit('resized')
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const [type] = await this.#reader.take(1)
        if (type === 0) await this.#update()
        else if (type === 3) await this.#cut()
        // A bell.
        else if (type !== 2) throw new Error(`the screen sent a message of type ${type}`)
      }
    } catch {
      this.close()
    }
  }

  async #update(): Promise<void> {
    this.#isAsked = false
    const count = (await this.#reader.take(3)).readUInt16BE(1)
    let resized = false
    for (let left = count; left > 0; left--) resized = (await this.#rectangle()) || resized
    // If the screen's size has changed, its content must be requested.
    if (resized) this.#send(rfb.pictureRequest(false, this.#frame.width, this.#frame.height))
    this.emit('update')
    this.#askForChanges()
  }

  /** Whether the screen has another size. */
  async #rectangle(): Promise<boolean> {
    const head = await this.#reader.take(12)
    const region = {
      x: head.readUInt16BE(0),
      y: head.readUInt16BE(2),
      width: head.readUInt16BE(4),
      height: head.readUInt16BE(6),
    }
    const encoding = head.readInt32BE(8)
    if (encoding === rfb.encodings.desktopSize) {
      this.#resize(region.width, region.height)
      return true
    }
    if (encoding === rfb.encodings.qemuKeys) this.#hasKeys = true
    else if (encoding === rfb.encodings.qemuLeds) await this.#lights()
    else if (encoding === rfb.encodings.raw) await this.#pixels(region)
    else throw new Error(`the screen sent the encoding ${encoding}`)
    return false
  }

  async #pixels(region: Region): Promise<void> {
    if (!this.#frame.holds(region)) throw new Error('the screen sent pixels beyond its edge')
    const frame = this.#frame
    const rowsAtOnce = Math.max(1, Math.floor(bandBytes / (region.width * pixelBytes)))
    const changed: Region[] = []
    for (let row = 0; row < region.height; row += rowsAtOnce) {
      const band = { ...region, y: region.y + row, height: Math.min(rowsAtOnce, region.height - row) }
      const pixels = await this.#reader.take(band.width * band.height * pixelBytes)
      changed.push(...[frame.put(band, pixels)].filter((one) => one !== undefined))
    }
    this.#freshPixels += region.width * region.height
    if (changed.length > 0) for (const watcher of this.#watchers) watcher(around(changed))
  }

  async #lights(): Promise<void> {
    this.#leds = (await this.#reader.take(1))[0]!
    this.emit('leds')
  }

  #askForChanges(): void {
    if (this.#watchers.size === 0 || this.#isAsked || this.#isEnded) return
    this.#isAsked = true
    this.#send(rfb.pictureRequest(true, this.#frame.width, this.#frame.height))
  }

  /** An extended message counts its bytes below zero. */
  async #cut(): Promise<void> {
    const bytes = (await this.#reader.take(7)).readInt32BE(3)
    if (Math.abs(bytes) > maxCutBytes) throw new Error('the screen sent a text that is too long')
    const body = await this.#reader.take(Math.abs(bytes))
    if (bytes < 0) this.clipboard.heard(body)
  }
}

/** The smallest region that holds all of these. */
function around(regions: readonly Region[]): Region {
  const [x, y] = [Math.min(...regions.map((one) => one.x)), Math.min(...regions.map((one) => one.y))]
  const right = Math.max(...regions.map((one) => one.x + one.width))
  const bottom = Math.max(...regions.map((one) => one.y + one.height))
  return { x, y, width: right - x, height: bottom - y }
}
