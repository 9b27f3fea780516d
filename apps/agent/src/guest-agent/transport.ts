// A guest through QEMU's guest agent, for images that have nothing else. The agent takes one call at a time and breaks
// on large answers: a command's output goes through files in the guest, and a bounded part comes back in one reply.
import { randomBytes } from 'node:crypto'
import { type ExecCommand, type ExecResult, Refusal, refuse } from '@dormouse/contract'
import { z } from 'zod'
import type { FileDownload, FileUpload, GuestTransport } from '../driver/guest-transport.ts'
import { before, begunBefore, deadlineOf, untilKilled } from '../mechanics/deadlines.ts'
import { execScript, killScript, watchScript } from '../scripts/exec.ts'
import { type Ended, refuseUnlaunched, resultOf } from '../scripts/exec-result.ts'
import { openThroughAgent, uploadThroughAgent, writeBytes } from './files.ts'
import {
  type AgentCall,
  AgentRefused,
  asUnavailable,
  runAside,
  startProgram,
  sweepMs,
  understood,
  untilEnded,
} from './programs.ts'

/** Host to guest, the agent's channel is safe up to 64 KiB at a time. */
const callMaxBytes = 56 * 1024
const inputMaxBytes = 18 * 1024
/** A command that is over by then needs no watcher. */
const shortMs = 300
/** So often a guest is told in vain to end a command. */
const refusedAtMost = 8
/** How soon a guest that had no room for the watcher is asked again. */
const fullMs = 1_000

/** How long a busy guest may take to make the file that carries a script or an input. */
const uploadMs = 10_000

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

  async exec(command: ExecCommand, _signal?: AbortSignal, deadline = deadlineOf(command)): Promise<ExecResult> {
    const started = performance.now()
    const nonce = randomBytes(12).toString('hex')
    const pid = await begunBefore(deadline, this.#start(command, nonce), (late) => this.#end(late))
    const ended = await before(deadline, this.#over(pid, nonce, command, deadline))
    if (!ended) {
      await this.#end(pid)
      return refuse('guest_deadline', `the command ran longer than ${command.timeoutSecs} s and was ended`)
    }
    refuseUnlaunched(ended, command)
    return resultOf(ended, nonce, Math.round(performance.now() - started))
  }

  createFile(path: string, mode: number | null): Promise<FileUpload> {
    return uploadThroughAgent(this.#call, path, mode)
  }

  openFile(path: string): Promise<FileDownload> {
    return openThroughAgent(this.#call, path)
  }

  async #start(command: ExecCommand, nonce: string): Promise<number> {
    const { stdin } = command
    const carried = stdin !== null && Buffer.byteLength(stdin) > inputMaxBytes
    const inputFile = carried ? `/run/.dormouse-${nonce}.in` : undefined
    if (carried) await this.#upload(`/run/.dormouse-${nonce}.in`, Buffer.from(stdin))
    const script = execScript(command, nonce, inputFile)
    const input = stdin === null || carried ? {} : { 'input-data': Buffer.from(stdin).toString('base64') }
    const inline = { path: '/bin/sh', arg: ['-c', script], 'capture-output': true, ...input }
    if (Buffer.byteLength(JSON.stringify(inline)) <= callMaxBytes) return startProgram(this.#call, inline)
    const file = `/run/.dormouse-${nonce}.sh`
    await this.#upload(file, Buffer.from(`rm -f ${file}\n${script}`))
    return startProgram(this.#call, { ...inline, arg: [file] })
  }

  /** Where it is not over at once, the guest itself watches for its end from then on. */
  async #over(pid: number, nonce: string, { timeoutSecs }: ExecCommand, deadline: number): Promise<Ended | undefined> {
    const soon = await untilEnded(this.#call, pid, Math.min(deadline, performance.now() + shortMs))
    if (soon) return soon
    while (!(await this.#aside(watchScript(pid, nonce, timeoutSecs)))) {
      const ended = await untilEnded(this.#call, pid, Math.min(deadline, performance.now() + fullMs))
      if (ended || performance.now() > deadline) return ended
    }
    return untilEnded(this.#call, pid, deadline)
  }

  /** Into a file that is made for it first: one that the agent makes is everybody's to write, for a moment. */
  async #upload(path: string, bytes: Buffer): Promise<void> {
    await runAside(this.#call, `umask 077; : >${path}`, uploadMs)
    try {
      const handle = understood(z.int(), await this.#call('guest-file-open', { path, mode: 'r+' }))
      await writeBytes(this.#call, handle, bytes)
      await this.#call('guest-file-close', { handle })
    } catch (error) {
      throw error instanceof AgentRefused ? noRoom(error) : error
    }
  }

  /** Kills the command's whole group, also what ignores gentler signals, and lets the agent forget it. */
  #end(pid: number): Promise<void> {
    let refused = 0
    return untilKilled(async () => {
      const killed = await this.#killed(pid)
      if (killed === undefined) refused++
      // A guest that is gone needs no killing; one that a command has filled up may only be slow to say a word.
      return killed ?? refused >= refusedAtMost
    })
  }

  /** Undefined where the guest says nothing to it. */
  async #killed(pid: number): Promise<boolean | undefined> {
    try {
      if (!(await this.#aside(killScript(pid)))) return false
      return (await untilEnded(this.#call, pid, performance.now() + sweepMs)) !== undefined
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return undefined
    }
  }

  /** False where the guest has no room for it: a command may have filled it up. */
  async #aside(script: string): Promise<boolean> {
    try {
      await runAside(this.#call, script)
      return true
    } catch (error) {
      if (!(error instanceof Refusal) || !(error.cause instanceof AgentRefused)) throw error
      return false
    }
  }

  async #clockIsRight(): Promise<boolean> {
    const guest = understood(z.number(), await this.#call('guest-get-time'))
    return Math.abs(guest / 1_000_000 - Date.now()) < 1_000
  }
}

function noRoom(cause: AgentRefused): Refusal {
  const refusal = new Refusal('command_not_run', 'the guest has no room for the command')
  refusal.cause = cause
  return refusal
}
