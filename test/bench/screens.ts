// What the way through agent and control plane costs a screen, against QEMU's own socket, on one desktop in one run.
//   node test/bench/screens.ts [rounds]     starts an instance of its own, prints a table

import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Desktop } from '@dormouse/client'
import { createWebSocketStream, WebSocket } from 'ws'
import { Instance } from '../real/parts/instance.ts'

const rounds = Number(process.argv[2] ?? 40)
const framesPerRound = 30

/** A client that asks for raw frames and types. */
class Viewer {
  readonly #stream: Duplex
  #wanted = 0
  #have = 0
  #kept: Buffer[] = []
  #ready: (() => void) | undefined
  width = 0
  height = 0
  /** In so many pieces it came: each is handed on by itself. */
  pieces = 0

  constructor(stream: Duplex) {
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => {
      this.pieces++
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

  /** Asks for the screen; answers how many bytes came once it is there. */
  async frame(incremental: boolean): Promise<number> {
    const wish = Buffer.alloc(10)
    wish.set([3, incremental ? 1 : 0])
    wish.writeUInt16BE(this.width, 6)
    wish.writeUInt16BE(this.height, 8)
    this.#stream.write(wish)
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

  /** Types a letter; answers the milliseconds until the screen has changed. */
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

const median = (list: number[]): number => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]!
const p90 = (list: number[]): number => list.toSorted((a, b) => a - b)[Math.floor(list.length * 0.9)]!

async function relayed(desktop: Desktop): Promise<Viewer> {
  const { websocketUrl } = await desktop.stream.getUrl({ claim: 'control' })
  return Viewer.over(createWebSocketStream(new WebSocket(websocketUrl)))
}

/** Where QEMU itself listens: the only screen of an instance of one desktop. */
function direct(instance: Instance): Promise<Viewer> {
  const folder = join(instance.dataDir, 'screens')
  const socket = readdirSync(folder).find((name) => name.endsWith('.vnc'))
  // A path of a socket is short: it is entered by the folder.
  process.chdir(folder)
  return Viewer.over(connect(socket!))
}

/** Processor time of a process and all its threads, in ms, as the scheduler counts it. */
function cpuMs(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const ns = tasks.map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]))
  return ns.reduce((sum, one) => sum + one, 0) / 1e6
}

async function measureKeys(viewers: Record<string, Viewer>): Promise<void> {
  const times = Object.fromEntries(Object.keys(viewers).map((name) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round++) {
    for (const [name, viewer] of Object.entries(viewers)) times[name]!.push(await viewer.keyToPixel())
  }
  for (const [name, list] of Object.entries(times)) {
    console.log(`key to pixel, ${name}: p50 ${median(list).toFixed(1)} ms, p90 ${p90(list).toFixed(1)} ms`)
  }
}

async function measureFrames(viewers: Record<string, Viewer>, pids: Record<string, number>): Promise<void> {
  const rates = Object.fromEntries(Object.keys(viewers).map((name) => [name, [] as number[]]))
  for (let round = 0; round < 5; round++) {
    for (const [name, viewer] of Object.entries(viewers)) {
      const before = Object.entries(pids).map(([, pid]) => cpuMs(pid))
      const began = performance.now()
      const piecesBefore = viewer.pieces
      let bytes = 0
      for (let i = 0; i < framesPerRound; i++) bytes += await viewer.frame(false)
      const secs = (performance.now() - began) / 1_000
      rates[name]!.push(bytes / secs / 1e6)
      const used = Object.entries(pids).map(
        ([of, pid], i) => `${of} ${Math.round(((cpuMs(pid) - before[i]!) / framesPerRound) * 1_000)} ms`,
      )
      const pieces = Math.round((viewer.pieces - piecesBefore) / framesPerRound)
      const frame = `frames of ${(bytes / framesPerRound / 1e6).toFixed(2)} MB in ${pieces} pieces`
      console.log(`  ${name}: ${(bytes / secs / 1e6).toFixed(1)} MB/s, ${frame}; CPU per 1,000: ${used.join(', ')}`)
    }
  }
  for (const [name, list] of Object.entries(rates))
    console.log(`full screens, ${name}: ${median(list).toFixed(1)} MB/s`)
}

await using instance = await Instance.start()
const desktop = await instance.create()
await desktop.wake()
const viewers = { direct: await direct(instance), relayed: await relayed(desktop) }
for (const viewer of Object.values(viewers)) await viewer.frame(false)
await measureKeys(viewers)
await measureFrames(viewers, {
  agent: instance.process('agent')!.pid,
  'control plane': instance.process('control plane')!.pid,
})
for (const viewer of Object.values(viewers)) viewer.end()
await desktop.destroy()
