// Short commands with an Idempotency-Key: beneath, each is an exec that lasts. So a repeat finds the first run, also after a lost
// host or leader, or a sleep. The guest keeps its output as that of any exec.
import {
  type ExecBody,
  type ExecJson,
  type ExecStateJson,
  type ExecStream,
  execOutputMaxBytes,
  execStdinMaxBytes,
  Refusal,
  type RefusalCode,
  refusals,
  refuse,
} from '@dormouse/contract'
import type { Asking } from './calls.ts'
import type { Execs } from './execs.ts'
import { shortTimeoutSecs, timedOut } from './service.ts'

interface Ran {
  result: ExecJson
  replay: 'no' | 'same' | 'mismatch'
}

interface Kept {
  text: string
  truncated: boolean
}

/** Added to the command's own timeout, for its end to be seen. */
const marginMs = 10_000
/** How often the end is looked for if all output that is shown has come. */
const lookEveryMs = 250
const longestWaitMs = 10_000

/** The guest can start the command, but not keep its output. */
const cannotKeep: ReadonlySet<RefusalCode> = new Set<RefusalCode>(['no_space', 'exec_unsupported', 'exec_limit'])

export class KeyedExecs {
  readonly #execs: Execs
  readonly #runPlainly: (asking: Asking, body: ExecBody) => Promise<ExecJson>

  constructor(execs: Execs, runPlainly: (asking: Asking, body: ExecBody) => Promise<ExecJson>) {
    this.#execs = execs
    this.#runPlainly = runPlainly
  }

  /** Runs the command that has this key once, and returns how that run has ended. */
  async run(asking: Asking, body: ExecBody, key: string, fingerprint: Buffer): Promise<Ran> {
    const startedAt = performance.now()
    const { id, replay, hasStarted } = await this.#execs.claim(asking, key, fingerprint)
    const exec = hasStarted
      ? await this.#execs.get(asking, id).catch((error: unknown) => forgotten(error))
      : await this.#start(asking, id, body)
    if (!exec) return { result: await this.#runPlainly(asking, body), replay }
    const until = performance.now() + shortTimeoutSecs(body) * 1_000 + marginMs
    try {
      if (replay !== 'mismatch' && typeof body.stdin === 'string') await this.#feed(asking, exec, body.stdin, until)
      const stdout = await this.#collect(asking, id, 'stdout', until)
      const ended = await this.#ended(asking, id, until)
      const stderr = await this.#collect(asking, id, 'stderr', until)
      const tookMs = replay === 'no' ? Math.round(performance.now() - startedAt) : durationOf(ended)
      return { result: resultOf(ended, { stdout, stderr }, tookMs, body), replay }
    } catch (error) {
      if (!(await this.#isInterrupted(asking, error))) throw error
      const detail = refusals.exec_interrupted.detail({ execId: id })
      throw new Refusal('exec_interrupted', detail, { exec_id: id })
    }
  }

  /** Whether the desktop is not awake any more. Its host may have noticed that before its state has changed. */
  async #isInterrupted(asking: Asking, error: unknown): Promise<boolean> {
    if (!(error instanceof Refusal)) return false
    if (error.code === 'guest_unavailable') return !(await this.#execs.isAwake(asking))
    return error.code === 'not_awake'
  }

  /** Undefined if the guest cannot keep it and this request may run it otherwise: once. */
  async #start(asking: Asking, id: string, body: ExecBody): Promise<ExecStateJson | undefined> {
    const { command, cwd, env, stdin } = body
    const start = {
      command,
      cwd,
      env,
      timeout_secs: shortTimeoutSecs(body),
      ...(stdin != null && { stdin: true as const }),
    }
    try {
      return await this.#execs.startClaimed(asking, id, start)
    } catch (error) {
      if (!(error instanceof Refusal) || !cannotKeep.has(error.code)) throw error
      if (!(await this.#execs.markStarted(id))) forgotten(error)
      return undefined
    }
  }

  /** A command may end, or be ended, before it has read its input. */
  async #feed(asking: Asking, exec: ExecStateJson, stdin: string, until: number): Promise<void> {
    if (!exec.stdin.open) return
    const bytes = Buffer.from(stdin)
    try {
      for (let at = exec.stdin.end; performance.now() < until; ) {
        const piece = bytes.subarray(at, at + execStdinMaxBytes)
        const isLast = at + piece.length === bytes.length
        at = await this.#execs.write(asking, exec.id, at, piece, isLast)
        if (isLast && at >= bytes.length) return
      }
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'exec_input_closed') throw error
    }
  }

  /** What is shown of a stream: its beginning. Returns with the stream's end, or as soon as no more is shown. */
  async #collect(asking: Asking, id: string, stream: ExecStream, until: number): Promise<Kept> {
    const pieces: Buffer[] = []
    let [size, offset, truncated] = [0, 0, false]
    for (;;) {
      const leftMs = Math.round(until - performance.now())
      if (leftMs <= 0) break
      const part = await this.#execs.read(asking, id, { stream, offset, waitMs: Math.min(leftMs, longestWaitMs) })
      truncated ||= part.offset > offset
      offset = part.offset + part.bytes.length
      pieces.push(part.bytes.subarray(0, execOutputMaxBytes - size))
      size += pieces.at(-1)!.length
      truncated ||= part.bytes.length > pieces.at(-1)!.length
      if (part.isEnd || truncated) break
    }
    return { text: Buffer.concat(pieces).toString(), truncated }
  }

  async #ended(asking: Asking, id: string, until: number): Promise<ExecStateJson> {
    for (;;) {
      const exec = await this.#execs.get(asking, id)
      if (exec.state !== 'running') return exec
      if (performance.now() >= until) refuse('guest_deadline')
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    }
  }
}

function resultOf(exec: ExecStateJson, kept: Record<ExecStream, Kept>, tookMs: number, body: ExecBody): ExecJson {
  if (exec.state === 'lost') refuse('exec_interrupted', interruptedByBoot, { exec_id: exec.id })
  const { stdout, stderr } = kept
  const result = {
    ...{ exit_code: exec.exit_code, signal: exec.signal, stdout: stdout.text, stderr: stderr.text },
    ...{ stdout_truncated: stdout.truncated, stderr_truncated: stderr.truncated, duration_ms: tookMs },
  }
  return exec.reason === 'timeout' ? timedOut(result, exec.timeout_secs ?? shortTimeoutSecs(body)) : result
}

const interruptedByBoot =
  'the command had begun when its desktop booted again, which ended it; look at what it has done before you run it again with another key'

/** Its guest no longer has it, or never kept it. */
function forgotten(error: unknown): never {
  if (!(error instanceof Refusal) || (error.code !== 'exec_unknown' && !cannotKeep.has(error.code))) throw error
  return refuse(
    'exec_interrupted',
    'the command with this key has begun before, and its result is not kept; look at what it has done before you run it again with another key',
  )
}

/** Both times are whole seconds of the guest's clock. */
const durationOf = ({ started_at, ended_at }: ExecStateJson): number =>
  ended_at === null ? 0 : Math.max(0, Date.parse(ended_at) - Date.parse(started_at))
