// Commands that last: one typed call for each of their routes, and an iterator over the output that reconnects.
import type { ExecBody, ExecJson, ExecStateJson, ExecStream, StartExecBody } from '@dormouse/contract'
import { sendJson } from './bodies.ts'
import { type ExecOutput, type FollowExecOptions, patiently } from './exec-output.ts'
import type { CallOptions, Http, Woken } from './http.ts'
import { type NamesOf, refuseUnknown } from './options.ts'
import { path } from './path.ts'
import { type RunBody, type RunIo, type RunJson, runToEnd } from './run.ts'
import { type AttachOptions, Terminal } from './terminal.ts'

export interface ReadExecOptions extends CallOptions {
  stream?: ExecStream
  offset?: number
  /** Wait this long for a byte, or for the end; at most 60. */
  waitSecs?: number
}

const followNames: NamesOf<FollowExecOptions> = { stream: true, offset: true, signal: true, wake: true }
const attachNames: NamesOf<AttachOptions> = { offset: true, signal: true }

const waitSecs = 30
const slackMs = 30_000
const inputPieceBytes = 256 * 1024

/** The calls of /v1/desktops/{id}/execs. */
export function execCalls(
  http: Http,
  newKey: () => string,
  exec: (desktopId: string, body: ExecBody, call: CallOptions) => Promise<ExecJson>,
) {
  const one = (desktopId: string, execId: string) => path`/v1/desktops/${desktopId}/execs/${execId}`

  const start = async (
    desktopId: string,
    body: StartExecBody,
    { idempotencyKey = newKey(), ...call }: CallOptions & { idempotencyKey?: string } = {},
  ) =>
    http.json<ExecStateJson & Woken>({
      ...call,
      method: 'POST',
      path: path`/v1/desktops/${desktopId}/execs`,
      ...sendJson(body, { 'idempotency-key': idempotencyKey }),
    })

  const read = (desktopId: string, execId: string, options: ReadExecOptions = {}) =>
    readOutput(http, one(desktopId, execId), options)

  const calls = {
    start,
    read,
    list: async (desktopId: string, call: CallOptions = {}) =>
      http.json<{ execs: ExecStateJson[] }>({ ...call, method: 'GET', path: path`/v1/desktops/${desktopId}/execs` }),
    get: async (desktopId: string, execId: string, call: CallOptions = {}) =>
      http.json<ExecStateJson>({ ...call, method: 'GET', path: one(desktopId, execId) }),
    /** Sent again with the same offset, it takes effect once, so it is retried. */
    write: async (
      desktopId: string,
      execId: string,
      offset: number,
      bytes: Uint8Array<ArrayBuffer>,
      { eof, ...call }: CallOptions & { eof?: boolean } = {},
    ) => writeAll(http, `${one(desktopId, execId)}/stdin`, { offset, bytes, eof: eof ?? false }, call),
    ...controlCalls(http, one, newKey),
    /** Waits for the end, over every failure that may pass, also over a sleep. A state other than `running`. */
    ended: (desktopId: string, execId: string, { signal }: { signal?: AbortSignal } = {}) =>
      untilEnded(http, one(desktopId, execId), signal),
    /** Yields the output until its end. Goes on at its offset after every failure that may pass, also over a sleep. */
    follow: (desktopId: string, execId: string, options: FollowExecOptions = {}) => {
      refuseUnknown('follow', options, followNames)
      return follow(http, (given) => read(desktopId, execId, given), options)
    },
  }
  return {
    ...calls,
    /**
     * Runs a command to its end, over lost connections and sleeps, and leaves nothing in the desktop. Throws TimeoutError if it
     * reached its timeout.
     */
    run: (desktopId: string, body: RunBody, io: RunIo = {}): Promise<RunJson> =>
      runToEnd({ ...calls, exec }, desktopId, body, io),
    /** Joins the terminal of an exec that was started with `tty`. Goes on after every failure that may pass, also after a sleep. */
    attach: (exec: ExecStateJson, options: AttachOptions = {}): Terminal => {
      refuseUnknown('attach', options, attachNames)
      return new Terminal(http, calls, exec, options)
    },
  }
}

type PathOf = (desktopId: string, execId: string) => string

/** Signals, sizes and removal. */
function controlCalls(http: Http, one: PathOf, newKey: () => string) {
  return {
    signal: async (desktopId: string, execId: string, signal: number, call: CallOptions = {}) =>
      http.json<ExecStateJson>({
        ...call,
        method: 'POST',
        path: `${one(desktopId, execId)}/signal`,
        ...sendJson({ signal }),
      }),
    resize: async (desktopId: string, execId: string, size: { cols: number; rows: number }, call: CallOptions = {}) =>
      http.json<ExecStateJson>({
        ...call,
        method: 'POST',
        path: `${one(desktopId, execId)}/resize`,
        ...sendJson(size),
      }),
    /** Kills it if it runs, and deletes its output. */
    delete: async (desktopId: string, execId: string, call: CallOptions = {}) =>
      http.json<{ id: string }>({
        ...call,
        method: 'DELETE',
        path: one(desktopId, execId),
        // Twice is the same as once: it may be retried.
        headers: { 'idempotency-key': newKey() },
      }),
  }
}

async function readOutput(http: Http, of: string, options: ReadExecOptions): Promise<ExecOutput> {
  const { stream, offset, waitSecs: wait_secs, ...call } = options
  const limitMs = (wait_secs ?? 0) * 1_000 + slackMs
  const query = { stream, offset, wait_secs }
  return http.run({ ...call, limitMs, method: 'GET', path: `${of}/output`, query }, async (response) => {
    const bytes = new Uint8Array(await response.arrayBuffer())
    const nextOffset = Number(response.headers.get('dormouse-next-offset'))
    const state = response.headers.get('dormouse-exec-state') as ExecStateJson['state']
    const isEnd = response.headers.get('dormouse-output-end') === 'true'
    return { bytes, offset: nextOffset - bytes.length, nextOffset, state, isEnd }
  })
}

async function untilEnded(http: Http, of: string, signal?: AbortSignal): Promise<ExecStateJson> {
  const call: CallOptions = { retries: 0, ...(signal && { signal }) }
  for (;;) {
    const exec = await patiently(http, () => http.json<ExecStateJson>({ ...call, method: 'GET', path: of }), signal)
    if (exec.state !== 'running') return exec
    call.wake = 'never'
    // Returns with the next output, or with the end.
    await patiently(http, () => readOutput(http, of, { ...call, offset: exec.stdout.end, waitSecs }), signal)
  }
}

interface Input {
  offset: number
  bytes: Uint8Array<ArrayBuffer>
  eof: boolean
}

/** Sends everything, as fast as the command reads; returns the offset behind it. */
async function writeAll(http: Http, to: string, { offset, bytes, eof }: Input, call: CallOptions): Promise<number> {
  const end = offset + bytes.length
  for (let at = offset; ; ) {
    const piece = bytes.subarray(at - offset, at - offset + inputPieceBytes)
    const isLast = at + piece.length === end
    const send = () =>
      http.json<{ next_offset: number }>({
        ...call,
        method: 'POST',
        path: to,
        query: { offset: at, eof: eof && isLast ? true : undefined },
        headers: { 'content-type': 'application/octet-stream' },
        body: piece,
      })
    at = (await patiently(http, send, call.signal)).next_offset
    if (at >= end) return at
  }
}

/** A desktop that falls asleep meanwhile is not woken for its output. */
async function* follow(
  http: Http,
  read: (options: ReadExecOptions) => Promise<ExecOutput>,
  options: FollowExecOptions,
): AsyncGenerator<ExecOutput, void, undefined> {
  const { offset = 0, stream, signal } = options
  let { wake } = options
  for (let at = offset; ; ) {
    const next = () =>
      read({ offset: at, waitSecs, retries: 0, wake, ...(stream && { stream }), ...(signal && { signal }) })
    const output = await patiently(http, next, signal)
    at = output.nextOffset
    wake = 'never'
    if (output.bytes.length > 0 || output.isEnd) yield output
    if (output.isEnd) return
  }
}
