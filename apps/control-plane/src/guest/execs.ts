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

/** What one request brings. */
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
  /** The offset of the first byte. */
  offset: number
  bytes: Buffer
  /** Whether these are the last bytes of the stream. */
  isEnd: boolean
}

interface Claim {
  id: string
  replay: 'no' | 'same' | 'mismatch'
  /** Or is so old that its guest may have forgotten it. */
  hasStarted: boolean
}

interface Started {
  exec: ExecStateJson
  replay: 'no' | 'same' | 'mismatch'
}

/** A start whose outcome is not known is sent again for this long. After that its guest may have forgotten it. */
const startAgainMs = 15 * 60_000
/** One request to a guest for output lasts at most this long, so that a client that leaves costs it nothing for long. */
const stepMs = 10_000
const inputWaitMs = 5_000
const marginMs = 40_000
/** The terminal that those of the browser and most others are like. */
const terminalName = 'xterm-256color'

export class Execs {
  readonly #options: ExecsOptions

  constructor(options: ExecsOptions) {
    this.#options = options
  }

  /** Starts an exec, or returns the one that was started with this key. */
  async start(asking: Asking, body: StartExecBody, key: string | null, fingerprint: Buffer): Promise<Started> {
    const { stdin } = body
    if (typeof stdin === 'string' && Buffer.byteLength(stdin) > execStdinMaxBytes)
      refuseField('stdin', `must have at most ${execStdinMaxBytes} bytes; send more with /stdin`)
    if (body.tty && typeof stdin === 'string') refuseField('stdin', 'must be left out with tty; send it with /stdin')
    const claim = await this.claim(asking, key, fingerprint)
    if (claim.hasStarted) return { exec: await this.get(asking, claim.id), replay: claim.replay }
    if (key !== null) return { exec: await this.startClaimed(asking, claim.id, body), replay: claim.replay }
    const exec = await this.#startInGuest(asking, claim.id, body).catch((error) => notAgain(error, claim.id))
    return { exec, replay: 'no' }
  }

  /** The exec of this key: a new one, or the one that an earlier request has made. */
  async claim(asking: Asking, key: string | null, fingerprint: Buffer): Promise<Claim> {
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
    return { id: row.id, replay, hasStarted: row.startedAt !== null || row.ageMs > startAgainMs }
  }

  async isAwake({ caller, desktopId }: Asking): Promise<boolean> {
    try {
      await this.#options.awake.require(caller, desktopId)
      return true
    } catch (error) {
      if (error instanceof Refusal && error.code === 'not_awake') return false
      throw error
    }
  }

  /** Starts it in the guest, once: whatever fails on the way may be repeated with its key. */
  async startClaimed(asking: Asking, id: string, body: StartExecBody): Promise<ExecStateJson> {
    const exec = await this.#startInGuest(asking, id, body).catch(mayRepeat)
    await this.markStarted(id)
    return exec
  }

  /** False if another request has marked it before. */
  markStarted(id: string): Promise<boolean> {
    return this.#options.leadership.transactionAtOnce((tx) => store.markStarted(tx, id))
  }

  async list(asking: Asking): Promise<ExecStateJson[]> {
    const { execs } = await this.#ask(asking, 'exec.list', {})
    // Ids sort by the time at which they were made.
    return execs.map((report) => toJson(asking.desktopId, report)).sort((a, b) => (a.id < b.id ? 1 : -1))
  }

  async get(asking: Asking, execId: string): Promise<ExecStateJson> {
    return toJson(asking.desktopId, (await this.#ask(asking, 'exec.get', { execId })).exec)
  }

  /** The next bytes from the offset, waiting for them at most this long. What was dropped is skipped. */
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

  /** Appends input, of which the bytes before the end are skipped. Returns the end, which may be before that of the bytes. */
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
      wait_for_reader: waitForReader,
    } = body
    const { exec } = await this.#ask(asking, 'exec.start', {
      ...{ execId, command, cwd, tty, timeoutSecs, keepAwake: keepAwake ?? false },
      waitForReader: waitForReader ?? false,
      env: { ...(tty && { TERM: terminalName }), ...env },
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

  /** The operation itself is never cut short: a client that has left cannot stop what its guest does. */
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

/** The start may have happened, and only the exec's own id would show a repeat: it must not be sent again as it was. */
function notAgain(error: unknown, execId: string): never {
  const mayHaveBegun =
    error instanceof Refusal && (error.extra.mayBeDone || ['exec_interrupted', 'guest_deadline'].includes(error.code))
  if (!mayHaveBegun) throw error
  const detail = `the guest or its host was lost, and the command may have begun; read exec ${execId} before you start it again, or start it with an Idempotency-Key`
  throw new Refusal('exec_interrupted', detail, { exec_id: execId, cause: error.message })
}

/** With a key, the same request finds out what has become of the start. */
function mayRepeat(error: unknown): never {
  if (!(error instanceof Refusal) || error.code !== 'exec_interrupted') throw error
  throw new Refusal('guest_unavailable', undefined, { cause: error.message })
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
