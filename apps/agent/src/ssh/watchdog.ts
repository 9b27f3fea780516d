// Watches over a kept connection, on which a guest that lives is never silent for long. Where its SSH server has died under
// it, the next one greets, in the middle of whatever packet; and one that falls silent although it has nothing else to do
// will not answer any more, long before the keepalives give a busy one up.
import type { Socket } from 'node:net'
import { setTimeout as sleep, setImmediate as untilRead } from 'node:timers/promises'
import type { Pulse } from '../driver/guest-activity.ts'
import { before } from '../mechanics/deadlines.ts'

/** What `dormouse-ssh-port` says when it waits for a host. No cipher's bytes are this but by a chance of one in 2^56. */
const greeting = Buffer.from('\nHELLO\n')
const lookEveryMs = 100
/** A keepalive, which comes 0.6 s after the last one’s answer, and its way there and back. */
const quietMs = 900
/** For so long a silent guest is looked at, again and again. */
const windowMs = 300
/** Where nothing else of the guest answers either, its silence alone must last so long. */
const aloneMs = 2_500

export interface Witnesses {
  pulse: Pulse
  /** Asks the guest by another way; false where it does not answer. */
  elsewhere: () => Promise<boolean>
  /** Says something that any server answers at once: a port that stands still goes on with it. */
  nudge: () => void
}

/** Calls `giveUp` where the guest greets anew, or is silent and idle, until the socket closes. */
export function keepVigil(socket: Socket, { pulse, elsewhere, nudge }: Witnesses, giveUp: () => void): void {
  let [heardAt, nudgedAt, looking] = [performance.now(), 0, false]
  let asking: Promise<boolean> | undefined
  let tail: Buffer = Buffer.alloc(0)
  const hear = (bytes: Buffer) => {
    heardAt = performance.now()
    tail = bytes.length < greeting.length ? Buffer.concat([tail, bytes]) : bytes
    tail = Buffer.from(tail.subarray(-greeting.length))
    if (tail.equals(greeting)) giveUp()
  }
  const answers = (): Promise<boolean | undefined> => {
    asking ??= elsewhere().finally(() => {
      asking = undefined
    })
    return before(performance.now() + windowMs, asking)
  }
  const look = async () => {
    const since = heardAt
    if (looking || performance.now() - since < quietMs) return
    looking = true
    // Once in each silence.
    if (nudgedAt < since) nudge()
    nudgedAt = performance.now()
    const [busy, answered] = await Promise.all([pulse.busy(windowMs), answers(), sleep(windowMs)])
    // Where this process was starved, the guest's words may lie unread behind the timer.
    await untilRead()
    looking = false
    const silent = heardAt === since && !socket.destroyed
    if (silent && !busy && (answered || performance.now() - since > aloneMs)) giveUp()
  }
  const timer = setInterval(() => void look(), lookEveryMs).unref()
  socket.on('data', hear).once('close', () => clearInterval(timer))
}
