// A guest through QEMU's guest agent, for images that have nothing else. The agent takes one call at a time and breaks
// on large answers: a command's output goes through files in the guest, and a bounded part comes back in one reply.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ExecCommand, type ExecResult, Refusal, refuse } from '@dormouse/contract'
import { z } from 'zod'
import { type Ended, resultOf } from './exec-result.ts'
import { execScript, killScript, watchScript } from './exec-script.ts'
import type { GuestTransport } from './transport.ts'

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

/** Host to guest, the agent's channel is safe up to 64 KiB at a time; base64 takes a third more. */
const callMaxBytes = 56 * 1024
const chunkBytes = 36 * 1024
/** How long the remains of a killed command may take to be swept up. */
const sweepMs = 1_500
/** A command that is over by then needs no watcher. */
const shortMs = 300
const firstPauseMs = 3

export class QgaTransport implements GuestTransport {
  readonly #call: AgentCall

  constructor(call: AgentCall) {
    this.#call = call
  }

  async ping(): Promise<void> {
    await this.#call('guest-ping')
  }

  /** To the millisecond at which it is sent; a guest without a clock to write to is set all the same. */
  async setTime(): Promise<void> {
    try {
      await this.#call('guest-set-time', { time: Date.now() * 1_000_000 })
    } catch (error) {
      if (!(error instanceof AgentRefused) || !(await this.#clockIsRight())) throw asUnavailable(error)
    }
  }

  async exec(command: ExecCommand): Promise<ExecResult> {
    const started = performance.now()
    const nonce = randomBytes(12).toString('hex')
    const pid = await this.#start(command, nonce)
    const deadline = started + command.timeoutSecs * 1_000
    const ended =
      (await this.#untilEnded(pid, Math.min(deadline, started + shortMs))) ??
      (await this.#long(pid, nonce, command, deadline))
    if (!ended) {
      await this.#end(pid)
      refuse('guest_deadline', `the command ran longer than ${command.timeoutSecs} s and was ended`)
    }
    return resultOf(ended, nonce, Math.round(performance.now() - started))
  }

  async #start(command: ExecCommand, nonce: string): Promise<number> {
    const { stdin } = command
    const carried = stdin !== null && Buffer.byteLength(stdin) > chunkBytes / 2
    const inputFile = carried ? `/run/.dormouse-${nonce}.in` : undefined
    if (carried) await this.#upload(`/run/.dormouse-${nonce}.in`, Buffer.from(stdin))
    const script = execScript(command, nonce, inputFile)
    const input = stdin === null || carried ? {} : { 'input-data': Buffer.from(stdin).toString('base64') }
    const inline = { path: '/bin/sh', arg: ['-c', script], 'capture-output': true, ...input }
    if (Buffer.byteLength(JSON.stringify(inline)) <= callMaxBytes) return this.#run(inline)
    const file = `/run/.dormouse-${nonce}.sh`
    await this.#upload(file, Buffer.from(`rm -f ${file}\n${script}`))
    return this.#run({ ...inline, arg: [file] })
  }

  /** Not over at once: from here on the guest itself watches for its end. */
  async #long(pid: number, nonce: string, { timeoutSecs }: ExecCommand, deadline: number) {
    await this.#aside(watchScript(pid, nonce, timeoutSecs))
    return this.#untilEnded(pid, deadline)
  }

  /** A script of ours that ends at once; the agent is made to forget it. */
  async #aside(script: string): Promise<void> {
    const pid = await this.#run({ path: '/bin/sh', arg: ['-c', script] })
    await this.#untilEnded(pid, performance.now() + sweepMs)
  }

  async #run(args: Record<string, unknown>): Promise<number> {
    try {
      return pidAnswer.parse(await this.#call('guest-exec', args)).pid
    } catch (error) {
      throw asUnavailable(error)
    }
  }

  async #upload(path: string, bytes: Buffer): Promise<void> {
    const handle = z.int().parse(await this.#call('guest-file-open', { path, mode: 'w' }))
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      const part = bytes.subarray(at, at + chunkBytes).toString('base64')
      await this.#call('guest-file-write', { handle, 'buf-b64': part })
    }
    await this.#call('guest-file-close', { handle })
  }

  /** Asks until the command has ended, ever less often; undefined at the deadline. */
  async #untilEnded(pid: number, deadline: number): Promise<Ended | undefined> {
    for (let pauseMs = firstPauseMs; ; pauseMs = nextPause(pauseMs)) {
      const ended = await this.#status(pid)
      if (ended) return ended
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) return undefined
      await sleep(Math.min(pauseMs, leftMs))
    }
  }

  async #status(pid: number): Promise<Ended | undefined> {
    try {
      const status = statusAnswer.parse(await this.#call('guest-exec-status', { pid }))
      if (!status.exited) return undefined
      const decode = (data = '') => Buffer.from(data, 'base64')
      const { exitcode, signal } = status
      return { exitCode: exitcode, signal, stdout: decode(status['out-data']), stderr: decode(status['err-data']) }
    } catch (error) {
      throw asUnavailable(error)
    }
  }

  /** Kills the command's whole group, also what ignores gentler signals, and lets the agent forget it. */
  async #end(pid: number): Promise<void> {
    try {
      await this.#aside(killScript(pid))
      await this.#untilEnded(pid, performance.now() + sweepMs)
    } catch (error) {
      // The deadline is the answer; a guest that is gone by now has ended the command too.
      if (!(error instanceof Refusal)) throw error
    }
  }

  async #clockIsRight(): Promise<boolean> {
    const guest = z.number().parse(await this.#call('guest-get-time'))
    return Math.abs(guest / 1_000_000 - Date.now()) < 1_000
  }
}

function nextPause(pauseMs: number): number {
  if (pauseMs < 12) return pauseMs * 2
  return Math.min(pauseMs * 1.1, 100)
}

/** What the agent refuses of these calls is an agent that cannot be used now. */
function asUnavailable(error: unknown): unknown {
  if (!(error instanceof AgentRefused)) return error
  const refusal = new Refusal('guest_unavailable', 'the guest’s agent could not do it')
  refusal.cause = error
  return refusal
}
