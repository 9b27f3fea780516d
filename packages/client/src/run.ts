// Runs a command to its end, for every program that waits for one: as an exec that lasts, so that input and output stream, and go
// on after a lost connection or a sleep. Leaves nothing in the desktop.
import type { ExecBody, ExecJson, ExecStateJson, ExecStream, StartExecBody } from '@dormouse/contract'
import { DormouseError, TimeoutError } from './errors.ts'
import type { ExecOutput, FollowExecOptions } from './exec-output.ts'
import type { CallOptions, Woken } from './http.ts'
import { KeptText } from './kept-text.ts'

export type RunBody = Pick<StartExecBody, 'command' | 'cwd' | 'env' | 'timeout_secs' | 'keep_awake'>

export interface RunIo {
  /** Its whole input, or what comes as it comes. */
  stdin?: string | AsyncIterable<Uint8Array<ArrayBuffer>> | undefined
  /** Gets the output as it comes. Nothing more is read before it returns. */
  onOutput?: (stream: ExecStream, bytes: Uint8Array<ArrayBuffer>) => void | Promise<void>
  /** Called before the output that follows a gap: the guest dropped this many bytes from this offset on. */
  onDropped?: (stream: ExecStream, gap: { offset: number; bytes: number }) => void
  /** Called once it runs, so that it can be sent signals. */
  onStarted?: (exec: ExecStateJson) => void
  /** Whether the desktop is woken for it, if it is asleep. */
  wake?: CallOptions['wake']
  /** Aborted: the command is killed. */
  signal?: AbortSignal | undefined
  /** How much of each stream is in the result: its beginning and its end. 1 MiB by default. */
  keptLength?: number
}

/** How a command ended, and how much of its output is missing because the guest dropped it. */
export interface RunJson extends ExecJson, Woken {
  dropped_bytes: Record<ExecStream, number>
}

interface Calls {
  start(desktopId: string, body: StartExecBody, call: CallOptions): Promise<ExecStateJson & Woken>
  write(
    desktopId: string,
    execId: string,
    offset: number,
    bytes: Uint8Array<ArrayBuffer>,
    options: CallOptions & { eof?: boolean },
  ): Promise<number>
  read(desktopId: string, execId: string, options: FollowExecOptions & CallOptions): Promise<ExecOutput>
  follow(desktopId: string, execId: string, options: FollowExecOptions): AsyncGenerator<ExecOutput, void, undefined>
  ended(desktopId: string, execId: string, options: { signal?: AbortSignal }): Promise<ExecStateJson>
  delete(desktopId: string, execId: string, call: CallOptions): Promise<unknown>
  exec(desktopId: string, body: ExecBody, call: CallOptions): Promise<ExecJson & Woken>
}

/** What a start may send with it. */
const stdinMaxLength = 64 * 1024
const keptLengthDefault = 1024 * 1024
const removeTimeoutMs = 15_000
/** While a listener is busy, the guest is notified this often that somebody reads: it waits for a minute. */
const stillReadsEveryMs = 20_000
/** The guest can run the command, but not keep its output. */
const cannotKeep = new Set(['no_space', 'exec_unsupported', 'exec_limit'])

/** How the command has ended. Throws TimeoutError if it reached its timeout, with what is kept of its output. */
export async function runToEnd(calls: Calls, desktopId: string, body: RunBody, io: RunIo): Promise<RunJson> {
  const startedAt = performance.now()
  const { stdin, signal, keptLength = keptLengthDefault } = io
  const isShort = typeof stdin === 'string' && stdin.length <= stdinMaxLength
  const call = signal ? { signal } : {}
  let exec: ExecStateJson & Woken
  try {
    const open = stdin === undefined ? {} : { stdin: isShort ? stdin : (true as const) }
    exec = await begin(calls, desktopId, { ...body, ...open, wait_for_reader: true }, io)
  } catch (error) {
    const isText = stdin === undefined || typeof stdin === 'string'
    if (!(error instanceof DormouseError) || !cannotKeep.has(error.code ?? '') || !isText) throw error
    return { ...(await runUnkept(calls, desktopId, { ...body, stdin }, io)), dropped_bytes: { stdout: 0, stderr: 0 } }
  }
  const kept = { stdout: new KeptText(keptLength), stderr: new KeptText(keptLength) }
  const over = new AbortController()
  try {
    signal?.throwIfAborted()
    io.onStarted?.(exec)
    const input = isShort || stdin === undefined ? [] : [feed(calls, exec, piecesOf(stdin), over.signal)]
    const output = Promise.all([
      take(calls, exec, 'stdout', kept.stdout, io),
      take(calls, exec, 'stderr', kept.stderr, io),
    ])
    // A command may end before its input does.
    const [stdout, stderr] = await Promise.race([output, ...input.map(onlyFailure)])
    const ended = await calls.ended(desktopId, exec.id, call)
    return {
      ...resultOf(ended, kept, Math.round(performance.now() - startedAt)),
      dropped_bytes: { stdout, stderr },
      ...(exec.woke && { woke: exec.woke }),
    }
  } finally {
    over.abort()
    await remove(calls, exec)
  }
}

/** Waits for the answer also if it is aborted: a start that is cut would leave a command that nobody ends. */
async function begin(calls: Calls, desktopId: string, body: StartExecBody, { signal, wake }: RunIo) {
  signal?.throwIfAborted()
  const patient = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const abort = () => {
    timer = setTimeout(() => patient.abort(signal?.reason), removeTimeoutMs)
  }
  signal?.addEventListener('abort', abort)
  try {
    return await calls.start(desktopId, body, { signal: patient.signal, wake })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

/** Returns how many bytes are missing. */
async function take(calls: Calls, exec: ExecStateJson, stream: ExecStream, kept: KeptText, io: RunIo): Promise<number> {
  let next = 0
  let dropped = 0
  const { desktop_id, id } = exec
  const { signal, onOutput, onDropped } = io
  const call = signal ? { signal } : {}
  const stillReads = () =>
    void calls.read(desktop_id, id, { ...call, stream, offset: next, wake: 'never' }).catch(() => undefined)
  for await (const output of calls.follow(desktop_id, id, { ...call, stream })) {
    const { offset, nextOffset, bytes } = output
    if (offset > next) {
      kept.skip(offset - next)
      dropped += offset - next
      onDropped?.(stream, { offset: next, bytes: offset - next })
    }
    next = nextOffset
    kept.add(bytes)
    const timer = setInterval(stillReads, stillReadsEveryMs)
    try {
      await onOutput?.(stream, bytes)
    } finally {
      clearInterval(timer)
    }
  }
  return dropped
}

/** Sends the input as fast as the command reads it, until that is over. */
async function feed(
  calls: Calls,
  { desktop_id, id }: ExecStateJson,
  pieces: AsyncIterable<Uint8Array<ArrayBuffer>>,
  signal: AbortSignal,
): Promise<void> {
  let at = 0
  const call = { signal, wake: 'never' } as const
  try {
    for await (const piece of pieces) at = await calls.write(desktop_id, id, at, piece, call)
    await calls.write(desktop_id, id, at, new Uint8Array(), { ...call, eof: true })
  } catch (error) {
    // The command has closed its input, or has ended.
    const isOver = signal.aborted || (error instanceof DormouseError && error.code === 'exec_input_closed')
    if (!isOver) throw error
  }
}

const onlyFailure = (work: Promise<void>): Promise<never> => work.then(() => new Promise<never>(() => undefined))

async function* piecesOf(stdin: string | AsyncIterable<Uint8Array<ArrayBuffer>>) {
  if (typeof stdin === 'string') yield new TextEncoder().encode(stdin)
  else yield* stdin
}

/** Also ends it. A desktop that cannot do that now forgets it within a day. */
async function remove(calls: Calls, { desktop_id, id }: ExecStateJson): Promise<void> {
  try {
    await calls.delete(desktop_id, id, { timeoutMs: removeTimeoutMs, wake: 'never' })
  } catch (error) {
    if (!(error instanceof DormouseError)) throw error
  }
}

async function runUnkept(calls: Calls, desktopId: string, body: ExecBody & RunBody, io: RunIo): Promise<ExecJson> {
  const { command, cwd, env, stdin, timeout_secs } = body
  const ended = await calls.exec(
    desktopId,
    { command, cwd, env, stdin, timeout_secs },
    { wake: io.wake, ...(io.signal && { signal: io.signal }) },
  )
  for (const stream of ['stdout', 'stderr'] as const) {
    if (ended[stream]) await io.onOutput?.(stream, new TextEncoder().encode(ended[stream]))
  }
  return ended
}

function resultOf(exec: ExecStateJson, kept: Record<ExecStream, KeptText>, durationMs: number): ExecJson {
  const { stdout, stderr } = kept
  const printed = {
    ...{ stdout: stdout.end(), stderr: stderr.end() },
    ...{ stdout_truncated: stdout.isTruncated, stderr_truncated: stderr.isTruncated },
  }
  if (exec.state === 'lost')
    throw new DormouseError(
      `the command is lost (${exec.reason}): its desktop booted again, or its supervisor died; look at what it has done before you run it again`,
    )
  if (exec.reason === 'timeout') {
    const detail = `the command ran longer than ${exec.timeout_secs} s and was ended`
    const problem = {
      type: 'about:blank',
      title: 'Gateway Timeout',
      status: 504,
      detail,
      code: 'guest_deadline',
    } as const
    throw new TimeoutError(detail, { problem: { ...problem, ...printed } })
  }
  return { exit_code: exec.exit_code, signal: exec.signal, ...printed, duration_ms: durationMs }
}
