// A client of a screen that asks for raw frames and types.
import type { Duplex } from 'node:stream'

export class Viewer {
  readonly #stream: Duplex
  #wanted = 0
  #have = 0
  #kept: Buffer[] = []
  #ready: (() => void) | undefined
  width = 0
  height = 0

  constructor(stream: Duplex) {
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => {
      this.#kept.push(chunk)
      this.#have += chunk.length
      if (this.#have >= this.#wanted) this.#ready?.()
    })
  }

  static async over(stream: Duplex): Promise<Viewer> {
    const viewer = new Viewer(stream)
    await viewer.take(12)
    stream.write('RFB 003.008\n')
    await viewer.take((await viewer.take(1))[0]!)
    stream.write(Buffer.from([1]))
    await viewer.take(4)
    stream.write(Buffer.from([1]))
    const init = await viewer.take(24)
    viewer.width = init.readUInt16BE(0)
    viewer.height = init.readUInt16BE(2)
    await viewer.take(init.readUInt32BE(20))
    stream.write(Buffer.from([2, 0, 0, 1, 0, 0, 0, 0]))
    return viewer
  }

  async take(length: number): Promise<Buffer> {
    this.#wanted = length
    if (this.#have < length) {
      await new Promise<void>((resolve) => {
        this.#ready = resolve
      })
      this.#ready = undefined
    }
    const all = this.#kept.length === 1 ? this.#kept[0]! : Buffer.concat(this.#kept)
    const rest = all.subarray(length)
    this.#kept = rest.length > 0 ? [rest] : []
    this.#have = rest.length
    return all.subarray(0, length)
  }

  /** Asks for the screen; returns how many bytes came once it is there. */
  async frame(incremental: boolean): Promise<number> {
    const request = Buffer.alloc(10)
    request.set([3, incremental ? 1 : 0])
    request.writeUInt16BE(this.width, 6)
    request.writeUInt16BE(this.height, 8)
    this.#stream.write(request)
    const head = await this.take(4)
    let bytes = 4
    for (let left = head.readUInt16BE(2); left > 0; left--) {
      const rect = await this.take(12)
      const size = rect.readUInt16BE(4) * rect.readUInt16BE(6) * 4
      await this.take(size)
      bytes += 12 + size
    }
    return bytes
  }

  /** Types a letter; returns the milliseconds until the screen has changed. */
  async keyToPixel(): Promise<number> {
    const changed = this.frame(true)
    const began = performance.now()
    for (const down of [1, 0]) this.#stream.write(Buffer.from([4, down, 0, 0, 0, 0, 0, 0x61]))
    await changed
    return performance.now() - began
  }

  end(): void {
    this.#stream.destroy()
  }
}
