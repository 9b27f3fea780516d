// Guarantee: whatever QEMU itself says to a viewer can be followed, in every encoding that a viewer may ask for, and
// nothing that was copied in the desktop comes through with it.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { answersToViewer } from '@dormouse/control-plane/streams/rfb-answers.ts'
import { RfbFilter } from '@dormouse/control-plane/streams/rfb-filter.ts'
import type { ScriptedFilter } from '@dormouse/control-plane/streams/rfb-script.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify } from '../../scripts/testbed/processes.ts'
import { waitFor } from '../wait-for.ts'

const program = '/usr/bin/qemu-system-x86_64'
const folder = mkdtempSync(join(tmpdir(), 'dormouse-vnc-'))
const socketFile = join(folder, 'vnc')
let qemu: ChildProcess

/** A firmware that shows a picture of many colours, and is halted once that is there: it would take it away after a minute. */
beforeAll(async () => {
  writeFileSync(join(folder, 'splash.bmp'), colourful())
  const screen = ['-vga', 'std', '-display', 'none', '-vnc', `unix:${socketFile},lossy=on`]
  const splash = ['-boot', `menu=on,splash=${join(folder, 'splash.bmp')},splash-time=60000`]
  qemu = spawn(program, ['-nodefaults', '-m', '64', '-monitor', 'stdio', ...screen, ...splash], {
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  await once(qemu, 'spawn')
  endWithUs(identify(qemu.pid!)!, 'SIGKILL')
  await waitFor(showsPicture)
  qemu.stdin!.write('stop\n')
})
afterAll(async () => {
  if (qemu.kill('SIGKILL')) await once(qemu, 'exit')
  rmSync(folder, { recursive: true, force: true })
})

const greeting = Buffer.from('RFB 003.008\n\x01\x01', 'latin1')
const extendedClipboard = 0xc0a1e5ce | 0
const encodings = (...list: number[]): Buffer => {
  const message = Buffer.alloc(4 + 4 * list.length)
  message.set([2, 0, 0, list.length])
  for (const [i, one] of list.entries()) message.writeInt32BE(one, 4 + 4 * i)
  return message
}
/** More than any screen has: QEMU cuts it to size. */
const wholeScreen = Buffer.from([3, 0, 0, 0, 0, 0, 16, 0, 16, 0])
/** That there is a text to be had. */
const copied = Buffer.from([6, 0, 0, 0, 255, 255, 255, 252, 8, 0, 0, 1])
/** What QEMU says of it: that it knows such messages, once, and each time that there is a text. */
const [capabilityBytes, noteBytes] = [16, 12]

/** A client of QEMU's own socket, and what of the answers would reach a viewer. */
class Client {
  readonly #socket: Socket
  readonly #answers: ScriptedFilter
  answered = 0
  passed = 0

  private constructor(socket: Socket, said: RfbFilter) {
    this.#socket = socket
    this.#answers = answersToViewer(said.terms)
    socket.on('data', (chunk: Buffer) => {
      this.answered += chunk.length
      this.passed += this.#answers.pass(chunk).length
    })
  }

  static async connect(...list: number[]): Promise<Client> {
    const socket = connect(socketFile)
    await once(socket, 'connect')
    const said = new RfbFilter('view')
    const client = new Client(socket, said)
    socket.write(said.pass(greeting))
    await waitFor(() => client.passed > 40)
    // Beside what a viewer may ask for: its filter would not let it ask for a clipboard.
    socket.write(encodings(...list))
    return client
  }

  say(message: Buffer): void {
    this.#socket.write(message)
  }

  /** Asks for the whole screen, and waits until some of it is there. */
  async look(): Promise<void> {
    const before = this.passed
    this.say(wholeScreen)
    await waitFor(() => this.passed > before + 1_000)
  }

  /** Takes nothing in any more. */
  deafen(): void {
    this.#socket.pause()
  }

  /** Resolves once QEMU has closed it: until then QEMU announces what it copied to the next client. */
  async end(): Promise<void> {
    const closed = once(this.#socket, 'close')
    this.#socket.resume().end()
    await closed
  }
}

test.each([
  ['raw', [0]],
  ['zlib', [6, -250]],
  ['ZRLE', [16]],
  ['Tight', [7, -239, -223]],
  ['Tight with JPEG', [7, -23, -249]],
  ['TightPNG', [-260, 7, -239]],
  ['TightPNG with JPEG', [-260, 7, -27]],
])('pictures in %s are followed, and what is copied among them is left out', async (_, list) => {
  const client = await Client.connect(...list, extendedClipboard)
  const other = await Client.connect(0, extendedClipboard)
  await waitFor(() => client.answered - client.passed === capabilityBytes)
  const times = 5
  for (let i = 0; i < times; i++) {
    await client.look()
    other.say(copied)
  }
  const copies = () => client.answered - client.passed
  await waitFor(() => copies() >= capabilityBytes + times * noteBytes)
  expect(copies()).toBe(capabilityBytes + times * noteBytes)
  await Promise.all([client.end(), other.end()])
})

test('QEMU queues few updates for a client that does not read', async () => {
  const deaf = await Client.connect(0)
  await deaf.look()
  const before = residentBytes()
  deaf.deafen()
  const times = 500
  for (let i = 0; i < times; i++) deaf.say(wholeScreen)
  const other = await Client.connect(16)
  for (let i = 0; i < 5; i++) await other.look()
  // All of them would be 600 MB.
  expect(times * 640 * 480 * 4).toBeGreaterThan(600e6)
  expect(residentBytes() - before).toBeLessThan(60e6)
  await Promise.all([deaf.end(), other.end()])
})

const residentBytes = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${qemu.pid}/status`, 'utf8'))?.[1]) * 1024

/** Whether the whole screen, packed, has many bytes: a black one has few. */
async function showsPicture(): Promise<boolean> {
  if (qemu.exitCode !== null) throw new Error(`QEMU ended with ${qemu.exitCode}`)
  const client = await Client.connect(16).catch(() => undefined)
  if (!client) return false
  client.say(wholeScreen)
  const isThere = await waitFor(() => client.passed > 100_000, 2_000).catch(() => false)
  await client.end()
  return isThere
}

/** 640 by 480: flat stripes above, shades in the middle, noise below. */
function colourful(): Buffer {
  const [width, height] = [640, 480]
  const head = Buffer.alloc(54)
  head.write('BM', 'latin1')
  head.writeUInt32LE(54 + width * height * 3, 2)
  head.writeUInt32LE(54, 10)
  head.writeUInt32LE(40, 14)
  head.writeInt32LE(width, 18)
  head.writeInt32LE(height, 22)
  head.set([1, 0, 24], 26)
  const pixels = Buffer.alloc(width * height * 3)
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) pixels.set(colourAt(x, y), (y * width + x) * 3)
  }
  return Buffer.concat([head, pixels])
}

function colourAt(x: number, y: number): number[] {
  if (y < 160) return [(x * 7919 + y * 104729) & 255, (x * y * 31) & 255, (x ^ y) & 255]
  if (y < 320) return [x & 255, y & 255, (x + y) & 255]
  return [(x >> 6) * 25, 128, 0]
}
