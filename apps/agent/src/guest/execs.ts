// Execs in a guest: each operation is a call of the guest's program. Keeps nothing, so they outlive this process.
import { type CommandPayload, type CommandResult, type DesktopId, type ExecReport, Refusal } from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { answerOf, badAnswer, execs, parseRead, parseStatus, startWords } from '../scripts/supervisor.ts'

interface Target {
  desktopId: DesktopId
  generation: number
}

type Words = readonly (string | number)[]

const stepSecs = 30
const lookSecs = 10
const removeWaitMs = 5_000

export class GuestExecs {
  async start(guest: GuestTransport, request: CommandPayload<'exec.start'>): Promise<ExecReport> {
    const answer = await guest.call({ words: startWords(request), timeoutSecs: stepSecs })
    return own(answerOf(answer, request), request)
  }

  async list(guest: GuestTransport, _target: Target): Promise<ExecReport[]> {
    return reportsOf(await ask(guest, ['list']))
  }

  async running(guest: GuestTransport, _target: Target): Promise<ExecReport[]> {
    return reportsOf(await ask(guest, ['list', 'running'], { timeoutSecs: lookSecs }))
  }

  async get(guest: GuestTransport, request: CommandPayload<'exec.get'>): Promise<ExecReport> {
    return own(answerOf(await ask(guest, ['get', request.execId])), request)
  }

  async read(guest: GuestTransport, request: CommandPayload<'exec.read'>): Promise<CommandResult<'exec.read'>> {
    const { execId, stream, offset, maxBytes, waitMs } = request
    const words = ['read', execId, stream === 'stderr' ? 'err' : 'out', offset, maxBytes, waitMs ?? 0]
    const { exec, from, bytes } = parseRead(await ask(guest, words, waiting(waitMs)))
    return { exec: ofThis(exec, request), offset: from, data: bytes.toString('base64') }
  }

  async write(guest: GuestTransport, request: CommandPayload<'exec.write'>): Promise<CommandResult<'exec.write'>> {
    const { execId, offset, data, ends, waitMs } = request
    const input = Buffer.from(data, 'base64')
    const answer = await ask(guest, ['write', execId, offset, ends ? 1 : 0, waitMs], { ...waiting(waitMs), input })
    const [line = ''] = answerOf(answer)
    const [, word, end] = /^(end|gap) (\d{1,16})$/.exec(line) ?? badAnswer()
    return { end: Number(end), gap: word === 'gap' }
  }

  /** Not repeated: a command may count its signals. */
  async signal(guest: GuestTransport, request: CommandPayload<'exec.signal'>): Promise<ExecReport> {
    const words = [execs, 'signal', request.execId, request.signal]
    return own(answerOf(await guest.call({ words, timeoutSecs: stepSecs }, { repeats: false })), request)
  }

  async resize(guest: GuestTransport, request: CommandPayload<'exec.resize'>): Promise<ExecReport> {
    const { cols, rows } = request.size
    return own(answerOf(await ask(guest, ['resize', request.execId, cols, rows])), request)
  }

  async remove(guest: GuestTransport, request: CommandPayload<'exec.remove'>): Promise<void> {
    await removeRecord(guest, execs, request.execId)
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
export const waiting = (waitMs: number | null) => ({ timeoutSecs: stepSecs + Math.ceil((waitMs ?? 0) / 1_000) })

const ask = (guest: GuestTransport, words: Words, { timeoutSecs = stepSecs, ...more }: Asked = {}): Promise<Buffer> =>
  guest.call({ words: [execs, ...words], timeoutSecs, ...more })

interface Asked {
  timeoutSecs?: number
  input?: Buffer
}

/** The last line says that the list is whole. */
function reportsOf(answer: Buffer): ExecReport[] {
  const lines = answerOf(answer)
  return lines.at(-1) === 'all' ? lines.slice(0, -1).map(parseStatus) : badAnswer()
}

const own = ([line = '']: string[], target: { execId: string }): ExecReport => ofThis(parseStatus(line), target)

/** A guest reports the exec that it was asked about. */
const ofThis = (report: ExecReport, { execId }: { execId: string }): ExecReport =>
  report.execId === execId ? report : badAnswer()
