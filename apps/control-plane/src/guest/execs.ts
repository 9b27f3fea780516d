// Execs in the guest of an awake desktop. The guest keeps their output and their end; any replica with a link to the host reads
// them. A start goes through the database first, so that it happens once.
import {
  type CommandName,
  type CommandPayload,
  type CommandResult,
  type ExecReport,
  type ExecStateJson,
  type ExecStream,
  execReadMaxBytes,
  execStdinMaxBytes,
  newId,
  Refusal,
  refusals,
  refuse,
  refuseField,
  type StartExecBody,
} from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import { CommitUnknown } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Customer } from '../principals/service.ts'
import type { AwakeDesktops } from './awake.ts'
import * as store from './exec-store.ts'

export interface ExecsOptions {
  awake: AwakeDesktops
  leadership: Leadership
  links: Links
}

type ExecName = Extract<CommandName, `exec.${string}`>
type Own<N extends ExecName> = Omit<CommandPayload<N>, 'desktopId' | 'generation'>

/** Of one request. */
export interface Asking {
  caller: Customer
  desktopId: string
  requestId: string
  signal?: AbortSignal | undefined
}

export interface ExecPart {
  stream: ExecStream
  offset: number
  waitMs: number
  maxBytes?: number
}

export interface ExecOutput {
  exec: ExecStateJson
  /** Of the first of the bytes. */
  offset: number
  bytes: Buffer
  /** Whether these are the last bytes of the stream. */
  isEnd: boolean
}

interface Started {
  exec: ExecStateJson
  replay: 'no' | 'same' | 'mismatch'
}

/** A start whose outcome is not known is sent again for so long. After that its guest may have forgotten it. */
const startAgainMs = 15 * 60_000
/** A guest is asked for output for at most so long, so that a client that leaves costs it nothing for long. */
const stepMs = 10_000
const inputWaitMs = 5_000
const marginMs = 40_000

export class Execs {
  readonly #options: ExecsOptions

  constructor(options: ExecsOptions) {
    this.#options = options
  }

  /** Starts an exec, or answers the one that was started with this key. */
  async start(asking: Asking, body: StartExecBody, key: string | null, fingerprint: Buffer): Promise<Started> {
    const { stdin } = body
    if (typeof stdin === 'string' && Buffer.byteLength(stdin) > execStdinMaxBytes)
      refuseField('stdin', `must have at most ${execStdinMaxBytes} bytes; send more with /stdin`)
    if (body.tty && typeof stdin === 'string') refuseField('stdin', 'must be left out with tty; send it with /stdin')
    await this.#options.awake.require(asking.caller, asking.desktopId)
    const id = newId()
    const row = await this.#insert({
      id,
      desktopId: asking.desktopId,
      key,
      fingerprint: key === null ? null : fingerprint,
    })
    const replay = row.id === id ? 'no' : row.fingerprint?.equals(fingerprint) ? 'same' : 'mismatch'
    if (row.removedAt) refuse('exec_unknown', 'the exec that was started with this key was deleted; use another key')
    if (row.startedAt || row.ageMs > startAgainMs) return { exec: await this.get(asking, row.id), replay }
    const exec = await this.#startInGuest(asking, row.id, body)
    if (key !== null) await this.#options.leadership.transactionAtOnce((tx) => store.markStarted(tx, row.id))
    return { exec, replay }
  }

  async list(asking: Asking): Promise<ExecStateJson[]> {
    const { execs } = await this.#ask(asking, 'exec.list', {})
    // Ids sort by the time at which they were made.
    return execs.map((report) => toJson(asking.desktopId, report)).sort((a, b) => (a.id < b.id ? 1 : -1))
  }

  async get(asking: Asking, execId: string): Promise<ExecStateJson> {
    return toJson(asking.desktopId, (await this.#ask(asking, 'exec.get', { execId })).exec)
  }

  /** The next bytes from the offset, waiting for them at most so long. What was dropped is skipped. */
  async read(
    asking: Asking,
    execId: string,
    { stream, offset, waitMs, maxBytes = execReadMaxBytes }: ExecPart,
  ): Promise<ExecOutput> {
    const until = performance.now() + waitMs
    for (;;) {
      const leftMs = Math.max(0, Math.min(stepMs, Math.round(until - performance.now())))
      const request = { execId, stream, offset, maxBytes, waitMs: leftMs || null }
      const { exec: report, offset: from, data } = await this.#ask(asking, 'exec.read', request)
      const bytes = Buffer.from(data, 'base64')
      const next = from + bytes.length
      if (next < offset) refuse('exec_offset', refusals.exec_offset.detail({ offset, end: next }))
      const exec = toJson(asking.desktopId, report)
      const isEnd = report.state !== 'running' && next >= report[stream].end
      if (bytes.length > 0 || isEnd || performance.now() >= until) return { exec, offset: from, bytes, isEnd }
    }
  }

  /** Appends input, of which the bytes before the end are skipped. Answers the end, which may be before that of the bytes. */
  async write(asking: Asking, execId: string, offset: number, bytes: Buffer, ends: boolean): Promise<number> {
    const request = { execId, offset, data: bytes.toString('base64'), ends, waitMs: inputWaitMs }
    const { end, gap } = await this.#ask(asking, 'exec.write', request)
    if (gap) refuse('exec_offset', refusals.exec_offset.detail({ offset, end }))
    return end
  }

  async signal(asking: Asking, execId: string, signal: number): Promise<ExecStateJson> {
    return toJson(asking.desktopId, (await this.#ask(asking, 'exec.signal', { execId, signal })).exec)
  }

  async resize(asking: Asking, execId: string, size: { cols: number; rows: number }): Promise<ExecStateJson> {
    return toJson(asking.desktopId, (await this.#ask(asking, 'exec.resize', { execId, size })).exec)
  }

  /** Ends the exec, and deletes what is kept of it. The key stays used. */
  async remove(asking: Asking, execId: string): Promise<void> {
    const { awake, leadership } = this.#options
    await awake.require(asking.caller, asking.desktopId)
    await leadership.transactionAtOnce((tx) => store.markRemoved(tx, asking.desktopId, execId))
    await this.#ask(asking, 'exec.remove', { execId })
  }

  /** Nothing has been started yet, so an unknown outcome is sent again by the client. */
  async #insert(row: store.NewExec): Promise<store.ExecRow> {
    try {
      return await this.#options.leadership.transaction((tx) => store.insert(tx, row))
    } catch (error) {
      if (error instanceof CommitUnknown)
        refuse('database_unavailable', 'the database connection was lost; send the request again')
      throw error
    }
  }

  async #startInGuest(asking: Asking, execId: string, body: StartExecBody): Promise<ExecStateJson> {
    const {
      command,
      cwd = null,
      env,
      stdin,
      tty = null,
      timeout_secs: timeoutSecs = null,
      keep_awake: keepAwake,
    } = body
    const { exec } = await this.#ask(asking, 'exec.start', {
      ...{ execId, command, cwd, env: env ?? {}, tty, timeoutSecs, keepAwake: keepAwake ?? false },
      hasInput: tty !== null || (stdin ?? null) !== null,
    })
    if (typeof stdin === 'string') await this.#giveInput(asking, execId, Buffer.from(stdin))
    return toJson(asking.desktopId, exec)
  }

  /** A command may end before it has read its input. */
  async #giveInput(asking: Asking, execId: string, bytes: Buffer): Promise<void> {
    try {
      await this.write(asking, execId, 0, bytes, true)
    } catch (error) {
      if (!(error instanceof Refusal && error.code === 'exec_input_closed')) throw error
    }
  }

  /** The operation itself is never cut short: a client that has left has no say in what its guest does. */
  async #ask<N extends ExecName>(asking: Asking, name: N, request: Own<N>): Promise<CommandResult<N>> {
    const { awake, links } = this.#options
    const { caller, desktopId, requestId, signal } = asking
    const { hostId, generation } = await awake.require(caller, desktopId)
    const payload = { desktopId, generation, ...request } as CommandPayload<N>
    try {
      return await links.command(hostId, name, payload, { timeoutMs: marginMs, requestId, ...(signal && { signal }) })
    } catch (error) {
      if (signal?.aborted) refuse('invalid_request', 'the client disconnected')
      return awake.whyNot(desktopId, error)
    }
  }
}

const streamJson = ({ start, end }: { start: number; end: number }) => ({ start, end, dropped_bytes: start })
const timeJson = (secs: number) => new Date(secs * 1_000).toISOString()

export const toJson = (desktopId: string, report: ExecReport): ExecStateJson => ({
  id: report.execId,
  desktop_id: desktopId,
  state: report.state,
  exit_code: report.exitCode,
  signal: report.signal,
  reason: report.reason,
  started_at: timeJson(report.startedAt),
  ended_at: report.endedAt === null ? null : timeJson(report.endedAt),
  tty: report.tty,
  keep_awake: report.keepAwake,
  timeout_secs: report.timeoutSecs,
  stdin: report.stdin,
  stdout: streamJson(report.stdout),
  stderr: streamJson(report.stderr),
  command: report.title,
})
