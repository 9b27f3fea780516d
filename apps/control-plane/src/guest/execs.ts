// Execs in the guest of an awake desktop. The guest keeps their output and their end; any replica with a link to the host reads
// them. A start goes through the database first, so that it happens once.
import {
  type ExecStateJson,
  type ExecStream,
  execReadMaxBytes,
  execStdinMaxBytes,
  type GuestCallBody,
  type GuestCallName,
  type GuestCallResult,
  newId,
  Refusal,
  refusals,
  refuse,
  refuseField,
  type StartExecBody,
} from '@dormouse/contract'
import { CommitUnknown } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { AwakeDesktops } from './awake.ts'
import type { Asking, GuestCaller } from './calls.ts'
import * as store from './exec-store.ts'

export interface ExecsOptions {
  awake: AwakeDesktops
  leadership: Leadership
  calls: GuestCaller
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
/** The longest that a guest takes for one operation, with what may have to be brought in. */
const timeoutSecs = 30
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
    return execs.sort((a, b) => (a.id < b.id ? 1 : -1))
  }

  get(asking: Asking, id: string): Promise<ExecStateJson> {
    return this.#ask(asking, 'exec.get', { id })
  }

  /** The next bytes from the offset, waiting for them at most this long. What was dropped is skipped. */
  async read(
    asking: Asking,
    id: string,
    { stream, offset, waitMs, maxBytes = execReadMaxBytes }: ExecPart,
  ): Promise<ExecOutput> {
    const until = performance.now() + waitMs
    for (;;) {
      const leftMs = Math.max(0, Math.min(stepMs, Math.round(until - performance.now())))
      const request = { id, stream, offset, max_bytes: maxBytes, wait_ms: leftMs }
      const { exec, offset: from, data } = await this.#ask(asking, 'exec.read', request)
      const bytes = Buffer.from(data, 'base64')
      const next = from + bytes.length
      if (next < offset) refuse('exec_offset', refusals.exec_offset.detail({ offset, end: next }))
      const isEnd = exec.state !== 'running' && next >= exec[stream].end
      if (bytes.length > 0 || isEnd || performance.now() >= until) return { exec, offset: from, bytes, isEnd }
    }
  }

  /** Appends input, of which the bytes before the end are skipped. Returns the end, which may be before that of the bytes. */
  async write(asking: Asking, id: string, offset: number, bytes: Buffer, eof: boolean): Promise<number> {
    const body = { id, offset, data: bytes.toString('base64'), eof, wait_ms: inputWaitMs }
    const { end, gap } = await this.#ask(asking, 'exec.write', body)
    if (gap) refuse('exec_offset', refusals.exec_offset.detail({ offset, end }))
    return end
  }

  signal(asking: Asking, id: string, signal: number): Promise<ExecStateJson> {
    return this.#ask(asking, 'exec.signal', { id, signal })
  }

  resize(asking: Asking, id: string, size: { cols: number; rows: number }): Promise<ExecStateJson> {
    return this.#ask(asking, 'exec.resize', { id, ...size })
  }

  /** Ends the exec, and deletes what is kept of it. The key stays used. */
  async remove(asking: Asking, execId: string): Promise<void> {
    const { awake, leadership } = this.#options
    await awake.require(asking.caller, asking.desktopId)
    await leadership.transactionAtOnce((tx) => store.markRemoved(tx, asking.desktopId, execId))
    await this.#ask(asking, 'exec.remove', { id: execId })
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

  #startInGuest(asking: Asking, id: string, body: StartExecBody): Promise<ExecStateJson> {
    const env = { ...(body.tty && { TERM: terminalName }), ...body.env }
    return this.#ask(asking, 'exec.start', { ...body, id, env })
  }

  #ask<N extends Extract<GuestCallName, `exec.${string}`>>(
    asking: Asking,
    call: N,
    body: GuestCallBody<N>,
  ): Promise<GuestCallResult<N>> {
    return this.#options.calls.ask(asking, call, body, { timeoutSecs })
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
