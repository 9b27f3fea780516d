// QEMU's guest agent: whether the guest is alive, its clock, and the scripts that bring in what the rest needs. The guest is not
// trusted: an answer in another form is a refusal, not our error.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, refuse } from '@dormouse/contract'
import { z } from 'zod'
import { type AgentCall, AgentRefused } from '../driver/guest-access.ts'
import type { FileSystem, GuestAgent, ProgramEnd } from '../driver/guest-transport.ts'

const clockToleranceMs = 1_000
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

/** Their agent leaves out sizes that it cannot read. */
const fileSystemsAnswer = z
  .array(
    z.object({
      mountpoint: z.string(),
      type: z.string(),
      'used-bytes': z.number().optional(),
      'total-bytes': z.number().optional(),
    }),
  )
  .max(1_000)
/** These are always full. */
const readOnlyTypes = new Set(['squashfs', 'iso9660', 'udf', 'erofs', 'cramfs'])

export class QemuGuestAgent implements GuestAgent {
  readonly #call: AgentCall

  constructor(call: AgentCall) {
    this.#call = call
  }

  async ping(): Promise<void> {
    await this.#call('guest-ping')
  }

  /** Sets the clock to the millisecond. A guest whose clock cannot be set but is right is accepted. */
  async setTime(): Promise<void> {
    try {
      await this.#call('guest-set-time', { time: Date.now() * 1_000_000 })
    } catch (error) {
      if (!(error instanceof AgentRefused) || !(await this.#clockIsRight())) throw asUnavailable(error)
    }
  }

  async fileSystems(): Promise<FileSystem[]> {
    const all = parse(fileSystemsAnswer, await this.#call('guest-get-fsinfo'))
    return all.flatMap(({ mountpoint: path, type, 'used-bytes': used, 'total-bytes': total }) =>
      used === undefined || !total || readOnlyTypes.has(type)
        ? []
        : [{ path, totalBytes: total, freeBytes: Math.max(0, total - used) }],
    )
  }

  async run(script: string, timeoutSecs: number, input?: Buffer): Promise<ProgramEnd> {
    const program = { path: '/bin/sh', arg: ['-c', script], 'capture-output': true }
    const given = input && { 'input-data': input.toString('base64') }
    try {
      const { pid } = parse(pidAnswer, await this.#call('guest-exec', { ...program, ...given }))
      return await this.#end(pid, timeoutSecs)
    } catch (error) {
      throw asUnavailable(error)
    }
  }

  /** Polls until the program has ended, less and less often. */
  async #end(pid: number, timeoutSecs: number): Promise<ProgramEnd> {
    const deadline = performance.now() + timeoutSecs * 1_000
    for (let pauseMs = firstPauseMs; ; pauseMs = nextPause(pauseMs)) {
      const status = parse(statusAnswer, await this.#call('guest-exec-status', { pid }))
      if (status.exited) {
        const { exitcode: exitCode, signal, 'out-data': out = '', 'err-data': err = '' } = status
        return { exitCode, signal, stdout: Buffer.from(out, 'base64'), stderr: Buffer.from(err, 'base64') }
      }
      if (performance.now() > deadline)
        return refuse('guest_deadline', `the guest did not answer within ${timeoutSecs} s`)
      await sleep(pauseMs)
    }
  }

  async #clockIsRight(): Promise<boolean> {
    const guestNs = parse(z.number(), await this.#call('guest-get-time'))
    return Math.abs(guestNs / 1_000_000 - Date.now()) < clockToleranceMs
  }
}

function parse<T>(form: z.ZodType<T>, answer: unknown): T {
  const parsed = form.safeParse(answer)
  return parsed.success
    ? parsed.data
    : refuse('guest_unavailable', 'the guest’s agent sent an answer that is not valid')
}

function nextPause(pauseMs: number): number {
  if (pauseMs < 12) return pauseMs * 2
  return Math.min(pauseMs * 1.1, longestPauseMs)
}

/** An agent that refuses one of these calls cannot be used now. */
function asUnavailable(error: unknown): unknown {
  if (!(error instanceof AgentRefused)) return error
  const refusal = new Refusal('guest_unavailable', 'the guest’s agent refused the call')
  refusal.cause = error
  return refusal
}
