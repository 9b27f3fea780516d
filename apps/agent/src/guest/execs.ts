// Execs in a guest: each operation is a call of the guest's program. Keeps nothing but output that is being read, so they outlive this
// process.
import { type GuestCallBody, type GuestCallResult, Refusal } from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'
import {
  answerOf,
  badAnswer,
  type ExecReport,
  execs,
  parseRead,
  parseStatus,
  startWords,
} from '../scripts/supervisor.ts'
import { FollowedOutputs, type Read } from './followed-output.ts'

const stepSecs = 30
const lookSecs = 10
const removeWaitMs = 5_000

export class GuestExecs {
  readonly #followed = new FollowedOutputs()

  async start(guest: GuestTransport, body: GuestCallBody<'exec.start'>): Promise<ExecReport> {
    const { command, cwd = null, stdin } = body
    const input = typeof stdin === 'string' ? stdin : undefined
    const answer = await guest.call({ words: startWords(body), input, timeoutSecs: stepSecs })
    return own(answerOf(answer, { command, cwd }), body)
  }

  async list(guest: GuestTransport): Promise<ExecReport[]> {
    return reportsOf(await ask(guest, ['list']))
  }

  async running(guest: GuestTransport): Promise<ExecReport[]> {
    return reportsOf(await ask(guest, ['list', 'running'], { timeoutSecs: lookSecs }))
  }

  async get(guest: GuestTransport, { id }: GuestCallBody<'exec.get'>): Promise<ExecReport> {
    return own(answerOf(await ask(guest, ['get', id])), { id })
  }

  async read(guest: GuestTransport, desktopId: string, body: GuestCallBody<'exec.read'>): Promise<Read> {
    const { id, stream, offset, max_bytes: maxBytes } = body
    const until = performance.now() + body.wait_ms
    const followed = body.wait_ms > 0 ? await this.#followed.read(guest, desktopId, body) : undefined
    if (followed) return followed
    const waitMs = Math.max(0, Math.round(until - performance.now()))
    const words = ['read', id, stream === 'stderr' ? 'err' : 'out', offset, maxBytes, waitMs]
    const { exec, from, bytes } = parseRead(await ask(guest, words, waiting(waitMs)))
    return { exec: ofThis(exec, body), offset: from, data: bytes.toString('base64') }
  }

  async write(guest: GuestTransport, body: GuestCallBody<'exec.write'>): Promise<GuestCallResult<'exec.write'>> {
    const { id, offset, data, eof, wait_ms: waitMs } = body
    const input = Buffer.from(data, 'base64')
    const answer = await ask(guest, ['write', id, offset, eof ? 1 : 0, waitMs], { ...waiting(waitMs), input })
    const [line = ''] = answerOf(answer)
    const [, word, end] = /^(end|gap) (\d{1,16})$/.exec(line) ?? badAnswer()
    return { end: Number(end), gap: word === 'gap' }
  }

  /** Not repeated: a command may count its signals. */
  async signal(guest: GuestTransport, { id, signal }: GuestCallBody<'exec.signal'>): Promise<ExecReport> {
    const call = { words: [execs, 'signal', id, signal], timeoutSecs: stepSecs }
    return own(answerOf(await guest.call(call, { repeats: false })), { id })
  }

  async resize(guest: GuestTransport, { id, cols, rows }: GuestCallBody<'exec.resize'>): Promise<ExecReport> {
    return own(answerOf(await ask(guest, ['resize', id, cols, rows])), { id })
  }

  remove(guest: GuestTransport, { id }: GuestCallBody<'exec.remove'>): Promise<void> {
    return removeRecord(guest, execs, id)
  }
}

/** Ends a command, and removes what is kept of it, if there is one. */
export async function removeRecord(guest: GuestTransport, folder: string, id: string): Promise<void> {
  try {
    answerOf(await guest.call({ words: [folder, 'remove', id, removeWaitMs], timeoutSecs: stepSecs }))
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'exec_unknown') throw error
  }
}

/** The time that a call takes which waits in the guest. */
export const waiting = (waitMs: number) => ({ timeoutSecs: stepSecs + Math.ceil(waitMs / 1_000) })

interface Asked {
  timeoutSecs?: number
  input?: Buffer
}

const ask = (guest: GuestTransport, words: (string | number)[], { timeoutSecs = stepSecs, ...more }: Asked = {}) =>
  guest.call({ words: [execs, ...words], timeoutSecs, ...more })

/** The last line says that the list is whole. */
function reportsOf(answer: Buffer): ExecReport[] {
  const lines = answerOf(answer)
  return lines.at(-1) === 'all' ? lines.slice(0, -1).map(parseStatus) : badAnswer()
}

const own = ([line = '']: string[], target: { id: string }): ExecReport => ofThis(parseStatus(line), target)

/** A guest reports the exec that it was asked about. */
const ofThis = (report: ExecReport, { id }: { id: string }): ExecReport => (report.id === id ? report : badAnswer())
