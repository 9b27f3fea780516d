// Somebody who looks at a desktop's screen: opens it, says what a client says whatever comes, looks on for a moment and goes.
import { WebSocket } from 'ws'
import type { Dice } from '../dice.ts'
import type { Answer, Desk } from './stage.ts'

const looksOnMs = 400
/** The close of a socket is told as an answer: its codes are no statuses, and those by which a service fails are not ours. */
const closed = (code: number): Answer => ({
  status: code === 1011 || code >= 4000 || code <= 1008 ? 200 : 500,
  text: `closed with ${code}`,
})

export async function look(desk: Desk, claim: 'view' | 'control', dice: Dice): Promise<Record<string, Answer>> {
  const asked = await desk.ask('POST', '/stream', JSON.stringify({ claim, takeover: true }))
  const url = asked.status === 200 && (JSON.parse(asked.text) as { websocket_url: string }).websocket_url
  return url ? { open: asked, screen: closed(await seen(url, dice)) } : { open: asked }
}

/** How it was closed. */
async function seen(url: string, dice: Dice): Promise<number> {
  const socket = new WebSocket(url)
  const over = Promise.withResolvers<number>()
  const say = (bytes: Buffer | number[]) => socket.readyState === socket.OPEN && socket.send(Buffer.from(bytes))
  socket.on('error', () => undefined).on('close', (code) => over.resolve(code))
  socket.on('open', () => {
    say(Buffer.from(dice.pick(['RFB 003.008\n', 'RFB 003.008\n', 'RFB 003.003\n'])))
    say([1])
    say([1])
    say([2, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16, 0xff, 0xff, 0xff, 0x21])
    say([3, 0, 0, 0, 0, 0, 3, 0, 2, 0])
    if (dice.chance(0.2)) say(dice.bytes(50))
    setTimeout(() => (dice.chance(0.5) ? socket.close() : socket.terminate()), looksOnMs)
  })
  return over.promise
}
