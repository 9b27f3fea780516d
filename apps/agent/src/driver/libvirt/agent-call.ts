// One call of a guest's agent, its failures in our words.
import { Refusal, refuse } from '@dormouse/contract'
import { CallTimeout, ConnectionLost, type GuestAgent, GuestAgentError } from '@dormouse/node-libvirt'
import { CallQueue } from '../../mechanics/call-queue.ts'
import { before } from '../../mechanics/deadlines.ts'
import { type AgentCall, AgentRefused } from '../guest-access.ts'
import type { GuestActivity } from '../guest-activity.ts'

/** How long an agent that listens may take; one that is mute is found out before. The guest's disk may take its time. */
const probeSecs = 2
const programSecs = 5
const fileSecs = 10
/** How long a guest that is busy may keep its agent from answering. */
const busyMs = 30_000
const pulseMs = 300
/** An agent that listens answers long before; what takes longer keeps its guest busy. */
const silentMs = 1_000
/** The guest's clock is set at the turn of a second. */
const waitsByNature = new Set(['guest-set-time'])
/** By these a guest's readiness is found out: whoever asks asks again. */
const probes = new Set(['guest-ping', 'guest-set-time', 'guest-get-time'])

interface AgentOf {
  agent: () => GuestAgent
  pulse: GuestActivity
  turns?: CallQueue
  /** Comes when libvirt answers at all: one that is slow itself makes no guest mute. */
  daemon?: () => Promise<unknown>
}

/** Every failure to reach the agent is `guest_unavailable`; what the agent itself refuses is AgentRefused. */
export function agentCall({ agent, pulse, turns = new CallQueue(), daemon = async () => true }: AgentOf): AgentCall {
  const once = (execute: string, args?: Record<string, unknown>) =>
    agent().command(args ? { execute, arguments: args } : { execute }, { timeoutSecs: patienceSecs(execute) })
  /** libvirt waits for as long as it was told; a guest that idles meanwhile will not answer any more. */
  const heeded = async (execute: string, args?: Record<string, unknown>) => {
    const answer = once(execute, args)
    const over = answer.then(
      () => true,
      () => true,
    )
    if (waitsByNature.has(execute)) return answer
    let came = await before(performance.now() + silentMs, over)
    while (!came) {
      const heard = daemon().then(
        () => true,
        () => false,
      )
      const [idle, answers] = await Promise.all([pulse.idle(pulseMs), before(performance.now() + pulseMs, heard)])
      came = await before(performance.now(), over)
      if (idle && answers && !came) return refuse('guest_unavailable', muteAgent)
    }
    return answer
  }
  const patient = async (execute: string, args?: Record<string, unknown>) => {
    const ends = performance.now() + busyMs
    for (;;) {
      const began = performance.now()
      try {
        return await heeded(execute, args)
      } catch (error) {
        const again = mayRepeat(execute, error, performance.now() - began) && performance.now() < ends
        if (!again || !(await pulse.busy(pulseMs))) throw translated(error)
      }
    }
  }
  return (execute, args) => turns.run(() => patient(execute, args), isMute)
}

const isMute = (error: unknown) => error instanceof Refusal

/**
 * What was not even begun may be begun again; asking how a program fares may be asked twice. libvirt first makes sure that
 * the agent listens: it has begun nothing where that took the time, and the command's own was not used up.
 */
function mayRepeat(execute: string, error: unknown, tookMs: number): boolean {
  if (!isLate(error) || probes.has(execute)) return false
  return execute === 'guest-exec-status' || tookMs < patienceSecs(execute) * 1_000
}

function patienceSecs(execute: string): number {
  if (probes.has(execute)) return probeSecs
  return execute.startsWith('guest-file-') ? fileSecs : programSecs
}

const muteAgent = 'the guest’s agent is there and does not answer; restart qemu-guest-agent in the guest, by its screen'

/** In libvirt's words, which are the same for both. */
const isLate = (error: unknown) => error instanceof GuestAgentError && late.test(error.description)
const late = /not available for now|respond to/i

function translated(error: unknown): unknown {
  if (error instanceof GuestAgentError && error.reason === 'refused') return new AgentRefused(error.description)
  if (error instanceof GuestAgentError || error instanceof CallTimeout || error instanceof ConnectionLost) {
    const refusal = new Refusal('guest_unavailable', told(error))
    refusal.cause = error
    return refusal
  }
  return error
}

function told(error: GuestAgentError | CallTimeout | ConnectionLost): string {
  if (!(error instanceof GuestAgentError)) return 'the guest’s agent cannot be asked just now; try again'
  if (error.reason === 'stopped') return 'the desktop’s guest does not run any more'
  if (isLate(error)) return muteAgent
  return 'the guest’s agent does not run; start qemu-guest-agent in the guest, by its screen, or try again where it boots'
}
