// The screen of a simulated desktop: a test picture over RFB 3.8 that keys and pointer change, so that input is visible.
import { EventEmitter, once } from 'node:events'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { deflateSync, inflateSync } from 'node:zlib'
import { ByteReader } from '../../mechanics/byte-reader.ts'

const width = 320
const height = 200
const name = 'simulated desktop'
/** The side of the squares that keys paint, one after the other. */
const square = 10

/** What a client has sent; the keys by their scancodes. */
export type HeardInput = { key: number; down: boolean } | { x: number; y: number; mask: number }

/** The latest that are remembered. */
const heardMax = 50_000
const pastedMax = 100
const tabletMax = 0x7fff

const qemuKeys = -258
const qemuLeds = -261
const extendedClipboard = 0xc0a1e5ce | 0
const [withText, caps, request, notify, provide] = [1, 1 << 24, 1 << 25, 1 << 27, 1 << 28] as const

const [control, keyV] = [0x1d, 0x2f]
/** The light that each lock switches, as RFB's bits have them. */
const lights: Readonly<Record<number, number>> = { 58: 4, 69: 2, 70: 1 }

/** The pixel format that a client requested: by how many bits each colour is shifted in a 32-bit pixel. */
interface Shifts {
  red: number
  green: number
  blue: number
}

export class SimulatedScreen {
  readonly #rgb = testPicture()
  readonly #changes = new EventEmitter<{ change: []; provided: [text: string] }>().setMaxListeners(0)
  readonly #clients = new Set<Duplex>()
  /** Clients that share the clipboard, as QEMU's extension does it. */
  readonly #sharing = new Set<Duplex>()
  /** Clients that are told the lights of the keyboard. */
  readonly #lit = new Set<Duplex>()
  /** The keys that are down, whichever client has pressed them. */
  readonly #down = new Set<number>()
  readonly #sharesClipboard: () => boolean
  /** What a program in the guest has copied last. */
  #copied = ''
  /** The client whose text the guest's programs paste. */
  #offering: Duplex | undefined
  /** Offers that the guest drops, as it does when its program for the clipboard has only just connected. */
  offersToDrop = 0
  /** The program that pastes is so slow to ask, draws something, and pastes what it gets when it asks a second time. */
  asksTwiceAfterMs: number | undefined
  /** The lights of the keyboard: Num Lock is on, as in most guests. */
  leds = 2
  /** Keys whose locks the guest has no use for. */
  readonly deadLocks = new Set<number>()
  /** How long the guest takes to switch a light. */
  lightMs = 0
  /** Lights that are being switched. */
  switching = 0
  /** What Control and V have pasted. */
  readonly pasted: string[] = []
  /** What clients have sent, for tests. */
  readonly heard: HeardInput[] = []
  #typed = 0
  #version = 0

  /** Without a clipboard to share, what a client sends is sent to all in capitals. */
  constructor(sharesClipboard = () => true) {
    this.#sharesClipboard = sharesClipboard
  }

  /** Serves one client until it disconnects or the desktop ends. */
  async serve(client: Duplex, life: AbortSignal): Promise<void> {
    const end = () => client.destroy()
    life.addEventListener('abort', end, { once: true })
    client.on('error', end)
    const gone = new AbortController()
    client.on('close', () => gone.abort())
    try {
      const reader = new ByteReader(client)
      await this.#greet(reader, client)
      this.#clients.add(client)
      await this.#obey(reader, client, gone.signal)
    } catch (error) {
      client.destroy(gone.signal.aborted ? undefined : (error as Error))
    } finally {
      this.#clients.delete(client)
      this.#sharing.delete(client)
      this.#lit.delete(client)
      if (this.#offering === client) this.#offering = undefined
      life.removeEventListener('abort', end)
    }
  }

  async #greet(reader: ByteReader, client: Duplex): Promise<void> {
    client.write('RFB 003.008\n')
    await reader.take(12)
    client.write(Buffer.from([1, 1]))
    await reader.take(1)
    client.write(Buffer.alloc(4))
    await reader.take(1)
    client.write(serverInit())
  }

  async #obey(reader: ByteReader, client: Duplex, gone: AbortSignal): Promise<void> {
    let shifts: Shifts = { red: 16, green: 8, blue: 0 }
    let shown = -1
    // As QEMU does: one that disconnects releases the keys of all, and no button.
    client.once('close', () => {
      for (const key of this.#down) this.#hear({ key, down: false })
      this.#down.clear()
    })
    for (;;) {
      // As QEMU does: a client that does not read is sent nothing more, and its input is not read either.
      if (client.writableNeedDrain) await once(client, 'drain', { signal: gone })
      const type = (await reader.take(1))[0]
      if (type === 0) shifts = shiftsOf(await reader.take(19))
      else if (type === 2) await this.#encodings(reader, client)
      else if (type === 3) {
        const request = await reader.take(9)
        if (request[0] === 0) shown = -1
        const version = shown
        shown = this.#version
        void this.#send(client, shifts, version, gone)
      } else if (type === 4) this.#type(await reader.take(7))
      else if (type === 5) this.#point(await reader.take(5))
      else if (type === 255) this.#press(await reader.take(11))
      else if (type === 6) {
        const bytes = (await reader.take(7)).readInt32BE(3)
        if (bytes < 0) this.#share(await reader.take(-bytes), client)
        else this.#cut(await reader.take(bytes))
      } else throw new Error(`unknown message type ${type}`)
    }
  }

  /** Confirms the extended keys to a client that has them. */
  async #encodings(reader: ByteReader, client: Duplex): Promise<void> {
    const count = (await reader.take(3)).readUInt16BE(1)
    const list = await reader.take(4 * count)
    const all = Array.from({ length: count }, (_, i) => list.readInt32BE(4 * i))
    if (all.includes(extendedClipboard) && this.#sharesClipboard()) {
      this.#sharing.add(client)
      client.write(extended(caps | request | notify | provide | withText, Buffer.alloc(4)))
    }
    if (all.includes(qemuKeys)) client.write(notice(qemuKeys))
    if (!all.includes(qemuLeds)) return
    this.#lit.add(client)
    client.write(Buffer.concat([notice(qemuLeds), Buffer.of(this.leds)]))
  }

  /** As in QEMU, a key that is not down cannot go up. */
  #press(message: Buffer): void {
    const [down, key] = [message.readUInt16BE(1) !== 0, message.readUInt32BE(7)]
    if (!down && !this.#down.delete(key)) return
    this.#hear({ key, down })
    if (!down) return
    if (!this.#down.has(key)) void this.switchLight(key)
    this.#down.add(key)
    this.#paintKey(key)
    if (key === keyV && this.#down.has(control)) void this.#pasteByKeys()
  }

  /** A lock key is pressed, by a client or otherwise. */
  async switchLight(key: number): Promise<void> {
    const light = this.deadLocks.has(key) ? undefined : lights[key]
    if (light === undefined) return
    this.switching++
    if (this.lightMs > 0) await sleep(this.lightMs)
    this.switching--
    this.leds ^= light
    for (const client of this.#lit) client.write(Buffer.concat([notice(qemuLeds), Buffer.of(this.leds)]))
  }

  async #pasteByKeys(): Promise<void> {
    const slowlyMs = this.asksTwiceAfterMs
    this.pasted.push(await (slowlyMs === undefined ? this.paste() : this.#pasteSlowly(slowlyMs)))
    if (this.pasted.length > pastedMax) this.pasted.shift()
    this.#paintKey(keyV)
  }

  async #pasteSlowly(ms: number): Promise<string> {
    await sleep(ms)
    await this.paste()
    this.#paintKey(keyV)
    await sleep(ms)
    return this.paste()
  }

  #hear(input: HeardInput): void {
    this.heard.push(input)
    if (this.heard.length > heardMax) this.heard.shift()
  }

  /** Sends the whole picture, as soon as it differs from what the client has. */
  async #send(client: Duplex, shifts: Shifts, version: number, signal: AbortSignal): Promise<void> {
    if (this.#version === version) await once(this.#changes, 'change', { signal }).catch(() => undefined)
    if (!signal.aborted) client.write(rawUpdate(this.#rgb, shifts))
  }

  #type(message: Buffer): void {
    if (message[0] !== 0) this.#paintKey(message.readUInt32BE(3))
  }

  #paintKey(key: number): void {
    const perRow = width / square
    const at = this.#typed++ % (perRow * 4)
    this.#paint((at % perRow) * square, Math.floor(at / perRow) * square, square, [key & 255, 255, 255])
  }

  #point(message: Buffer): void {
    const mask = message[0]!
    const [x, y] = [throughTablet(message.readUInt16BE(1), width), throughTablet(message.readUInt16BE(3), height)]
    this.#hear({ x, y, mask })
    if (mask !== 0) this.#paint(x, y, 4, [255, 0, 0])
  }

  /** Text that a client cuts is sent to all clients in capitals, so that both directions are visible. */
  #cut(text: Buffer): void {
    const copied = Buffer.from(text.toString('latin1').toUpperCase(), 'latin1')
    const head = Buffer.from([3, 0, 0, 0, 0, 0, 0, 0])
    head.writeUInt32BE(copied.length, 4)
    for (const client of this.#clients) client.write(Buffer.concat([head, copied]))
  }

  /** A program in the guest copies a text. */
  copy(text: string): void {
    this.#copied = text
    this.#offering = undefined
    for (const client of this.#sharing) client.write(extended(notify | withText))
  }

  /** A program in the guest asks for the text to paste. */
  async paste(): Promise<string> {
    if (!this.#offering) return this.#copied
    const provided = once(this.#changes, 'provided')
    this.#offering.write(extended(request | withText))
    const [text] = (await provided) as [string]
    return text
  }

  #share(body: Buffer, client: Duplex): void {
    const flags = body.readUInt32BE(0)
    if (flags & notify && this.offersToDrop-- <= 0) this.#offering = client
    if (flags & provide) this.#changes.emit('provided', inflateSync(body.subarray(4)).subarray(4).toString())
    if (!(flags & request)) return
    const text = Buffer.from(`${this.#copied}\0`)
    const counted = Buffer.concat([Buffer.alloc(4), text])
    counted.writeUInt32BE(text.length, 0)
    client.write(extended(provide | withText, deflateSync(counted)))
  }

  #paint(left: number, top: number, side: number, colour: number[]): void {
    for (let y = top; y < Math.min(top + side, height); y++) {
      for (let x = left; x < Math.min(left + side, width); x++) this.#rgb.set(colour, (y * width + x) * 3)
    }
    this.#version++
    this.#changes.emit('change')
  }
}

/** Where a guest's pointer is: as QEMU scales a pixel to its tablet, and Linux scales that to the screen. */
export const throughTablet = (at: number, size: number): number =>
  Math.floor((Math.floor((at * tabletMax) / size) * size) / (tabletMax + 1))

/** An update that consists of one encoding and no pixels. */
function notice(encoding: number): Buffer {
  const update = Buffer.alloc(16)
  update.writeUInt16BE(1, 2)
  update.writeInt32BE(encoding, 12)
  return update
}

/** A message of the extended clipboard counts its bytes below zero. */
function extended(flags: number, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(12)
  head[0] = 3
  head.writeInt32BE(-(4 + body.length), 4)
  head.writeInt32BE(flags, 8)
  return Buffer.concat([head, body])
}

/** The lower half has stripes for tests to compare; the upper half is for keys. */
function testPicture(): Buffer {
  const rgb = Buffer.alloc(width * height * 3)
  for (let y = height / 2; y < height; y++) {
    for (let x = 0; x < width; x++) rgb.set([Math.floor(x / 40) * 32, y, 128], (y * width + x) * 3)
  }
  return rgb
}

function serverInit(): Buffer {
  const init = Buffer.alloc(24)
  init.writeUInt16BE(width, 0)
  init.writeUInt16BE(height, 2)
  // 32 bits a pixel, depth 24, little-endian, true colour.
  init.set([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0], 4)
  init.writeUInt32BE(name.length, 20)
  return Buffer.concat([init, Buffer.from(name)])
}

function shiftsOf(message: Buffer): Shifts {
  const [bits, , bigEndian, trueColour] = message.subarray(3)
  if (bits !== 32 || bigEndian || !trueColour) throw new Error('only 32-bit little-endian true colour is supported')
  return { red: message[13]!, green: message[14]!, blue: message[15]! }
}

function rawUpdate(rgb: Buffer, { red, green, blue }: Shifts): Buffer {
  const update = Buffer.alloc(16 + width * height * 4)
  update.writeUInt16BE(1, 2)
  update.writeUInt16BE(width, 8)
  update.writeUInt16BE(height, 10)
  for (let i = 0; i < width * height; i++) {
    const pixel = (rgb[i * 3]! << red) | (rgb[i * 3 + 1]! << green) | (rgb[i * 3 + 2]! << blue)
    update.writeUInt32LE(pixel >>> 0, 16 + i * 4)
  }
  return update
}
