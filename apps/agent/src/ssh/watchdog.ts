// Closes a connection whose server has died. A guest that is alive is never silent for long on an open connection.
// - Where its SSH server has died and the next one has started, that one sends its greeting in the middle of a packet.
// - A guest that is silent although it is idle will not answer any more. The keepalives find that out much later, since they
//   must wait for busy guests.
import type { Socket } from 'node:net'
import { setTimeout as sleep, setImmediate as tick } from 'node:timers/promises'
import type { GuestActivity } from '../driver/guest-access.ts'
import { before } from '../mechanics/deadlines.ts'
import { watchdogLimits } from '../scripts/limits.ts'

/** What `our program` sends when it waits for a host. Encrypted bytes match it with a chance of one in 2^56. */
const greeting = Buffer.from('\nHELLO\n')
/** More often than keepalives are sent. */
const checkEveryMs = 100

export interface LifeSigns {
  activity: GuestActivity
  /** Whether the guest agent answers. */
  agentAnswers: () => Promise<boolean>
  /** Sends something that any server answers at once. A port that stalls continues with it. */
  nudge: () => void
  /** Whether the guest is paused. Asked at every check. */
  isResting: () => boolean
}

/** Calls `close` if the guest greets again, or is silent and idle, until the socket closes. */
export function watchConnection(
  socket: Socket,
  { activity, agentAnswers, nudge, isResting }: LifeSigns,
  close: () => void,
): void {
  let [heardAt, nudgedAt, isChecking] = [performance.now(), 0, false]
  let asking: Promise<boolean> | undefined
  let tail: Buffer = Buffer.alloc(0)
  const onData = (bytes: Buffer) => {
    heardAt = performance.now()
    tail = bytes.length < greeting.length ? Buffer.concat([tail, bytes]) : bytes
    tail = Buffer.from(tail.subarray(-greeting.length))
    if (tail.equals(greeting)) close()
  }
  const answersSoon = (): Promise<boolean | undefined> => {
    asking ??= agentAnswers().finally(() => {
      asking = undefined
    })
    return before(performance.now() + watchdogLimits.checkMs, asking)
  }
  const check = async () => {
    if (isResting()) heardAt = performance.now()
    const since = heardAt
    if (isChecking || performance.now() - since < watchdogLimits.silenceMs) return
    isChecking = true
    // Once in each silence.
    if (nudgedAt < since) nudge()
    nudgedAt = performance.now()
    const { checkMs, silenceWithoutAgentMs } = watchdogLimits
    const [isBusy, answered] = await Promise.all([activity.busy(checkMs), answersSoon(), sleep(checkMs)])
    // If this process had no processor time, the guest's bytes may be unread behind the timer.
    await tick()
    isChecking = false
    const isSilent = heardAt === since && !socket.destroyed
    if (isSilent && !isBusy && (answered || performance.now() - since > silenceWithoutAgentMs)) close()
  }
  const timer = setInterval(() => void check(), checkEveryMs).unref()
  socket.on('data', onData).once('close', () => clearInterval(timer))
}
