// Watches over a kept connection, on which a guest that lives says a word each second. Where its SSH server has died under
// it, the next one greets, in the middle of whatever packet; and one that falls silent although it has nothing else to do
// will not answer any more, long before the keepalives give a busy one up.
import type { Socket } from 'node:net'
import type { Pulse } from './pulse.ts'

/** What `dormouse-ssh-port` says when it waits for a host. No cipher's bytes are this but by a chance of one in 2^56. */
const greeting = Buffer.from('\nHELLO\n')
const lookEveryMs = 500
/** Two keepalives. */
const quietMs = 2_000
const pulseMs = 800

/** Calls `giveUp` where the guest greets anew, or is silent and idle, until the socket closes. */
export function keepVigil(socket: Socket, pulse: Pulse, giveUp: () => void): void {
  let [heardAt, looking] = [performance.now(), false]
  let tail: Buffer = Buffer.alloc(0)
  const hear = (bytes: Buffer) => {
    heardAt = performance.now()
    tail = bytes.length < greeting.length ? Buffer.concat([tail, bytes]) : bytes
    tail = Buffer.from(tail.subarray(-greeting.length))
    if (tail.equals(greeting)) giveUp()
  }
  const look = async () => {
    if (looking || performance.now() - heardAt < quietMs) return
    looking = true
    const busy = await pulse.busy(pulseMs)
    looking = false
    if (!busy && performance.now() - heardAt > quietMs && !socket.destroyed) giveUp()
  }
  const timer = setInterval(() => void look(), lookEveryMs).unref()
  socket.on('data', hear).once('close', () => clearInterval(timer))
}
