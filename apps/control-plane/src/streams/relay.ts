// Relays bytes between a client's WebSocket and a desktop's screen, with back-pressure both ways: a client that reads
// slowly gets fewer frames, and holds at most a window of them.
import { pulseEveryMs, type ScreenNote, screenProtocol } from '@dormouse/contract'
import { type Channel, freeMemory } from '@dormouse/link'
import type { RawData, WebSocket } from 'ws'
import type { Ending } from './endings.ts'
import type { RfbFilter } from './rfb-filter.ts'
import type { ScriptedFilter } from './rfb-script.ts'
import { SocketPause, throttle } from './throttle.ts'

const pingEveryMs = 15_000
/** The client is disconnected after this many unanswered pings. */
const maxMissedPings = 2
const closeGraceMs = 5_000

/** The filters of each direction. What a screen sends to a `control` client is not filtered. */
export interface Filters {
  fromClient: RfbFilter
  fromScreen: ScriptedFilter | undefined
}

/** Relays until either side ends; rejects if a side sends what cannot be parsed. */
export async function relay(socket: WebSocket, screen: Channel, { fromClient, fromScreen }: Filters): Promise<void> {
  const broken = Promise.withResolvers<void>()
  const pause = new SocketPause(socket)
  throttle(socket, pause)
  socket.on('close', () => broken.resolve())
  socket.on('message', (data: RawData, isBinary) => {
    if (!isBinary) return
    try {
      const passed = fromClient.pass(data as Buffer)
      if (passed.length === 0 || screen.destroyed || screen.write(passed)) return
      pause.hold('screen')
      screen.once('drain', () => pause.release('screen'))
    } catch (error) {
      broken.reject(error)
    }
  })
  socket.resume()
  try {
    await Promise.race([broken.promise, show(screen, socket, fromScreen)])
  } finally {
    screen.destroy()
  }
}

async function show(screen: Channel, socket: WebSocket, fromScreen: ScriptedFilter | undefined): Promise<void> {
  for await (const chunk of screen) {
    const passed = fromScreen ? fromScreen.pass(chunk) : chunk
    if (passed.length > 0) await sent(socket, passed)
    // All of the chunk was sent: its memory is free at once, not at the next collection.
    if (passed.length === chunk.length) freeMemory(chunk)
  }
}

/** Resolves when the bytes were handed to the network. */
export function sent(socket: WebSocket, chunk: Buffer): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.send(chunk, { binary: true }, (error) => (error ? reject(error) : resolve()))
  return promise
}

/** Pings the client, and terminates the socket when it stays silent. */
export function pingClient(socket: WebSocket): void {
  let silent = 0
  const alive = () => {
    silent = 0
  }
  socket.on('pong', alive)
  socket.on('message', alive)
  const beat = setInterval(() => {
    if (silent++ >= maxMissedPings) socket.terminate()
    else if (socket.readyState === socket.OPEN) socket.ping()
  }, pingEveryMs)
  socket.once('close', () => clearInterval(beat))
}

/** Sends pulses to a page, which cannot ping. The first comes at once: from then on the page expects them. */
export function sendPulses(socket: WebSocket): void {
  const pulse = JSON.stringify({ alive: true } satisfies ScreenNote)
  const send = () => socket.readyState === socket.OPEN && socket.send(pulse)
  send()
  const beat = setInterval(send, pulseEveryMs)
  socket.once('close', () => clearInterval(beat))
}

/** Closes the socket with the reason, and terminates it if the client does not answer. */
export function endSocket(socket: WebSocket, { code, cause, why, next }: Ending): void {
  if (socket.protocol === screenProtocol && socket.readyState === socket.OPEN)
    socket.send(JSON.stringify({ end: { cause, why } } satisfies ScreenNote))
  hangUp(socket, code, next ? `${why}; ${next}` : why)
}

/** Closes the socket, and terminates it if the client does not answer. */
export function hangUp(socket: WebSocket, code: number, reason: string): void {
  if (socket.readyState === socket.CLOSED) return
  socket.resume()
  socket.close(code, reason)
  const late = setTimeout(() => socket.terminate(), closeGraceMs)
  socket.once('close', () => clearTimeout(late))
}
