// The bytes between a viewer's WebSocket and a desktop's screen. Each reader sets the pace of its writer: a viewer that
// reads slowly gets fewer frames, and holds at most a window of them.
import { pulseEveryMs, type ScreenNote } from '@dormouse/contract'
import { type Channel, freeMemory } from '@dormouse/link'
import type { RawData, WebSocket } from 'ws'
import { Brake, keepPace } from './pace.ts'
import type { RfbFilter } from './rfb-filter.ts'
import type { ScriptedFilter } from './rfb-script.ts'

const pingEveryMs = 15_000
/** So many pings without a sign of life, and the viewer is gone. */
const patience = 2
const closeGraceMs = 5_000

/** What passes each way; what the screen says to whoever controls passes as it is. */
export interface Filters {
  said: RfbFilter
  answered: ScriptedFilter | undefined
}

/** Carries both ways until the screen ends, cleanly or not; rejects where one side says what cannot be read. */
export async function relay(socket: WebSocket, screen: Channel, { said, answered }: Filters): Promise<void> {
  const broken = Promise.withResolvers<void>()
  const brake = new Brake(socket)
  keepPace(socket, brake)
  socket.on('close', () => broken.resolve())
  socket.on('message', (data: RawData, isBinary) => {
    if (!isBinary) return
    try {
      const passed = said.pass(data as Buffer)
      if (passed.length === 0 || screen.destroyed || screen.write(passed)) return
      brake.hold('screen')
      screen.once('drain', () => brake.release('screen'))
    } catch (error) {
      broken.reject(error)
    }
  })
  socket.resume()
  try {
    await Promise.race([broken.promise, show(screen, socket, answered)])
  } finally {
    screen.destroy()
  }
}

async function show(screen: Channel, socket: WebSocket, answered: ScriptedFilter | undefined): Promise<void> {
  for await (const chunk of screen) {
    const passed = answered ? answered.pass(chunk) : chunk
    if (passed.length > 0) await sent(socket, passed)
    // Nothing of it is kept where all of it has passed.
    if (passed.length === chunk.length) freeMemory(chunk)
  }
}

/** Resolves when the bytes have left for the network. */
function sent(socket: WebSocket, chunk: Buffer): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.send(chunk, { binary: true }, (error) => (error ? reject(error) : resolve()))
  return promise
}

/** Ends a socket whose other side has not been heard of for too long. */
export function watchPulse(socket: WebSocket): void {
  let silent = 0
  const alive = () => {
    silent = 0
  }
  socket.on('pong', alive)
  socket.on('message', alive)
  const beat = setInterval(() => {
    if (silent++ >= patience) socket.terminate()
    else if (socket.readyState === socket.OPEN) socket.ping()
  }, pingEveryMs)
  socket.once('close', () => clearInterval(beat))
}

/** Tells a page, which cannot ping, that the way to it is alive: at once, so that it listens for the next, and so on. */
export function tellPulse(socket: WebSocket): void {
  const pulse = JSON.stringify({ alive: true } satisfies ScreenNote)
  const tell = () => socket.readyState === socket.OPEN && socket.send(pulse)
  tell()
  const beat = setInterval(tell, pulseEveryMs)
  socket.once('close', () => clearInterval(beat))
}

/** Says why, and hangs up where the other side does not answer. */
export function endSocket(socket: WebSocket, { code, reason }: { code: number; reason: string }): void {
  if (socket.readyState === socket.CLOSED) return
  socket.resume()
  socket.close(code, reason)
  const hangUp = setTimeout(() => socket.terminate(), closeGraceMs)
  socket.once('close', () => clearTimeout(hangUp))
}
