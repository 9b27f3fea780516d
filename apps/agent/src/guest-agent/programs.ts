// Programs that a guest's agent runs: started, and polled until they end.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, refuse } from '@dormouse/contract'
import { z } from 'zod'
import { type AgentCall, AgentRefused } from '../driver/guest-access.ts'
import type { ProgramEnd } from '../scripts/exec-result.ts'
import { agentLimits } from '../scripts/limits.ts'

const firstPauseMs = 3
const longestPauseMs = 100

const pidAnswer = z.object({ pid: z.int() })
const statusAnswer = z.object({
  exited: z.boolean(),
  exitcode: z.int().optional(),
  signal: z.int().optional(),
  'out-data': z.string().optional(),
  'err-data': z.string().optional(),
})

/** The answer in its expected form. The guest is not trusted: an answer in another form is a refusal, not our error. */
export function parseAnswer<T>(form: z.ZodType<T>, answer: unknown): T {
  const parsed = form.safeParse(answer)
  return parsed.success
    ? parsed.data
    : refuse('guest_unavailable', 'the guest’s agent sent an answer that is not valid')
}

export async function startProgram(call: AgentCall, args: Record<string, unknown>): Promise<number> {
  try {
    return parseAnswer(pidAnswer, await call('guest-exec', args)).pid
  } catch (error) {
    throw asUnavailable(error)
  }
}

/** Runs a short script of ours, whose result does not matter. Polling its end makes the agent forget it. */
export async function runScript(call: AgentCall, script: string, timeoutMs: number = agentLimits.scriptMs) {
  const pid = await startProgram(call, { path: '/bin/sh', arg: ['-c', script] })
  await programEnd(call, pid, performance.now() + timeoutMs)
}

/** Polls until the program has ended, less and less often; undefined at the deadline. */
export async function programEnd(call: AgentCall, pid: number, deadline: number): Promise<ProgramEnd | undefined> {
  for (let pauseMs = firstPauseMs; ; pauseMs = nextPause(pauseMs)) {
    const end = await status(call, pid)
    if (end) return end
    const leftMs = deadline - performance.now()
    if (leftMs <= 0) return undefined
    await sleep(Math.min(pauseMs, leftMs))
  }
}

async function status(call: AgentCall, pid: number): Promise<ProgramEnd | undefined> {
  try {
    const answer = parseAnswer(statusAnswer, await call('guest-exec-status', { pid }))
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
  return Math.min(pauseMs * 1.1, longestPauseMs)
}

/** An agent that refuses one of these calls cannot be used now. */
export function asUnavailable(error: unknown): unknown {
  if (!(error instanceof AgentRefused)) return error
  const refusal = new Refusal('guest_unavailable', 'the guest’s agent refused the call')
  refusal.cause = error
  return refusal
}
