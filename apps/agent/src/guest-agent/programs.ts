// Programs that a guest's agent runs: started, asked after until they end, and killed.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, refuse } from '@dormouse/contract'
import { z } from 'zod'
import type { Ended } from '../scripts/exec-result.ts'

/** Throws a `guest_unavailable` refusal where the agent cannot be reached, AgentRefused where it says no. */
export type AgentCall = (execute: string, args?: Record<string, unknown>) => Promise<unknown>

export class AgentRefused extends Error {
  override readonly name = 'AgentRefused'
}

const pidAnswer = z.object({ pid: z.int() })
const statusAnswer = z.object({
  exited: z.boolean(),
  exitcode: z.int().optional(),
  signal: z.int().optional(),
  'out-data': z.string().optional(),
  'err-data': z.string().optional(),
})

/** The answer, where it has the form it should have: a guest's word is untrusted, and nonsense is no fault of ours. */
export function understood<T>(form: z.ZodType<T>, answer: unknown): T {
  const parsed = form.safeParse(answer)
  return parsed.success ? parsed.data : refuse('guest_unavailable', 'the guest’s agent answered nonsense')
}

const firstPauseMs = 3
/** How long a script of ours may take that has nothing to wait for. */
export const sweepMs = 1_500

export async function startProgram(call: AgentCall, args: Record<string, unknown>): Promise<number> {
  try {
    return understood(pidAnswer, await call('guest-exec', args)).pid
  } catch (error) {
    throw asUnavailable(error)
  }
}

/** A script of ours that ends at once; the agent is made to forget it. */
export async function runAside(call: AgentCall, script: string, mostMs = sweepMs): Promise<void> {
  const pid = await startProgram(call, { path: '/bin/sh', arg: ['-c', script] })
  await untilEnded(call, pid, performance.now() + mostMs)
}

/** Asks until the program has ended, ever less often; undefined at the deadline. */
export async function untilEnded(call: AgentCall, pid: number, deadline: number): Promise<Ended | undefined> {
  for (let pauseMs = firstPauseMs; ; pauseMs = nextPause(pauseMs)) {
    const ended = await status(call, pid)
    if (ended) return ended
    const leftMs = deadline - performance.now()
    if (leftMs <= 0) return undefined
    await sleep(Math.min(pauseMs, leftMs))
  }
}

async function status(call: AgentCall, pid: number): Promise<Ended | undefined> {
  try {
    const answer = understood(statusAnswer, await call('guest-exec-status', { pid }))
    if (!answer.exited) return undefined
    const decode = (data = '') => Buffer.from(data, 'base64')
    const { exitcode, signal } = answer
    return { exitCode: exitcode, signal, stdout: decode(answer['out-data']), stderr: decode(answer['err-data']) }
  } catch (error) {
    throw asUnavailable(error)
  }
}

function nextPause(pauseMs: number): number {
  if (pauseMs < 12) return pauseMs * 2
  return Math.min(pauseMs * 1.1, 100)
}

/** What the agent refuses of these calls is an agent that cannot be used now. */
export function asUnavailable(error: unknown): unknown {
  if (!(error instanceof AgentRefused)) return error
  const refusal = new Refusal('guest_unavailable', 'the guest’s agent could not do it')
  refusal.cause = error
  return refusal
}
