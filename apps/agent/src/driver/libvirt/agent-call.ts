// Calls a guest's agent through libvirt; its failures become refusals that say what to do.
import { Refusal, refuse } from '@dormouse/contract'
import { CallTimeout, ConnectionLost, type GuestAgent, GuestAgentError } from '@dormouse/node-libvirt'
import { CallQueue } from '../../mechanics/call-queue.ts'
import { before } from '../../mechanics/deadlines.ts'
import type { GuestActivity } from '../guest-access.ts'
import { type AgentCall, AgentRefused } from '../guest-access.ts'

/** libvirt's timeouts for a call. A guest that does not answer is noticed earlier. Its disk may be slow. */
const probeSecs = 2
const programSecs = 5
const fileSecs = 10
/** How long a busy guest may delay its agent's answer. */
const busyMs = 30_000
const sampleMs = 300
/** A working agent answers in less, unless the call keeps its guest busy. */
const silentMs = 1_000
/** These calls wait by themselves: a guest's clock is set at the start of a second. */
const slowCalls = new Set(['guest-set-time'])
/** Calls that check whether a guest answers: their callers repeat them. */
const probes = new Set(['guest-ping', 'guest-set-time', 'guest-get-time'])

interface AgentOf {
  agent: () => GuestAgent
  activity: GuestActivity
  queue?: CallQueue
  /** Resolves when libvirt itself answers: a slow libvirt does not mean that the guest is silent. */
  daemon?: () => Promise<unknown>
}

/** Every failure to reach the agent is `guest_unavailable`; what the agent itself refuses is AgentRefused. */
export function agentCall({ agent, activity, queue = new CallQueue(), daemon = async () => true }: AgentOf): AgentCall {
  const once = (execute: string, args?: Record<string, unknown>) =>
    agent().command(args ? { execute, arguments: args } : { execute }, { timeoutSecs: timeoutSecs(execute) })
  /** libvirt waits until its timeout, but a guest that is idle meanwhile will not answer any more. */
  const untilIdle = async (execute: string, args?: Record<string, unknown>) => {
    const answer = once(execute, args)
    const over = answer.then(
      () => true,
      () => true,
    )
    if (slowCalls.has(execute)) return answer
    let came = await before(performance.now() + silentMs, over)
    while (!came) {
      const heard = daemon().then(
        () => true,
        () => false,
      )
      const [idle, answers] = await Promise.all([activity.idle(sampleMs), before(performance.now() + sampleMs, heard)])
      came = await before(performance.now(), over)
      if (idle && answers && !came) return refuse('guest_unavailable', silentAgent)
    }
    return answer
  }
  const withRetries = async (execute: string, args?: Record<string, unknown>) => {
    const ends = performance.now() + busyMs
    for (;;) {
      const began = performance.now()
      try {
        return await untilIdle(execute, args)
      } catch (error) {
        const again = mayRepeat(execute, error, performance.now() - began) && performance.now() < ends
        if (!again || !(await activity.busy(sampleMs))) throw translated(error)
      }
    }
  }
  return (execute, args) => queue.run(() => withRetries(execute, args), isMute)
}

const isMute = (error: unknown) => error instanceof Refusal

/**
 * A call that has not started may be repeated, and so may one that only reads a program's status. libvirt first checks that the
 * agent listens: if that check used up the time, and not the call's own timeout, nothing was started.
 */
function mayRepeat(execute: string, error: unknown, tookMs: number): boolean {
  if (!isLate(error) || probes.has(execute)) return false
  return execute === 'guest-exec-status' || tookMs < timeoutSecs(execute) * 1_000
}

function timeoutSecs(execute: string): number {
  if (probes.has(execute)) return probeSecs
  return execute.startsWith('guest-file-') ? fileSecs : programSecs
}

const silentAgent = 'the guest agent does not answer; restart qemu-guest-agent in the guest, using its screen'

/** libvirt's message is the same for a check and for a call. */
const isLate = (error: unknown) => error instanceof GuestAgentError && late.test(error.description)
const late = /not available for now|respond to/i

function translated(error: unknown): unknown {
  if (error instanceof GuestAgentError && error.reason === 'refused') return new AgentRefused(error.description)
  if (error instanceof GuestAgentError || error instanceof CallTimeout || error instanceof ConnectionLost) {
    const refusal = new Refusal('guest_unavailable', describe(error))
    refusal.cause = error
    return refusal
  }
  return error
}

function describe(error: GuestAgentError | CallTimeout | ConnectionLost): string {
  if (!(error instanceof GuestAgentError)) return 'the guest agent cannot be reached now; retry'
  if (error.reason === 'stopped') return 'the desktop’s guest is no longer running'
  if (isLate(error)) return silentAgent
  return 'the guest agent is not running; start qemu-guest-agent in the guest, using its screen, or retry if the guest is booting'
}
