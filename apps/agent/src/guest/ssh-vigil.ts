// Watches over a kept connection, on which a guest that lives says a word each second: one that falls silent although it
// has nothing else to do will not answer any more, long before the keepalives give a busy one up.
import type { Socket } from 'node:net'
import type { Pulse } from './pulse.ts'

const lookEveryMs = 500
/** More than two keepalives. */
const quietMs = 2_500
const pulseMs = 1_000

/** Calls `giveUp` where the guest is silent and idle, until the socket closes. */
export function keepVigil(socket: Socket, pulse: Pulse, giveUp: () => void): void {
  let [read, heardAt, looking] = [socket.bytesRead, performance.now(), false]
  const heard = () => {
    if (socket.bytesRead === read) return false
    read = socket.bytesRead
    heardAt = performance.now()
    return true
  }
  const look = async () => {
    if (heard() || looking || performance.now() - heardAt < quietMs) return
    looking = true
    const busy = await pulse.busy(pulseMs)
    looking = false
    if (!heard() && !busy && !socket.destroyed) giveUp()
  }
  const timer = setInterval(() => void look(), lookEveryMs).unref()
  socket.once('close', () => clearInterval(timer))
}
