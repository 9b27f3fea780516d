// The words of the program's operations on commands, and its answers. The program's source: apps/agent/supervisor. Pure.
import { createHash } from 'node:crypto'
import { type ExecCommand, type ExecStateJson, type GuestCallBody, notRunReason, refuse } from '@dormouse/contract'
import { supervisorProgram } from './supervisor-program.ts'

/** Where a guest may keep the program and the execs, the first that works. `/run` forgets them when the guest boots. */
export const supervisorPlaces = ['/var/lib/dormouse', '/root/.dormouse', '/run/dormouse-execs'] as const

/** Each release of it has its own name: those that run go on. */
const programName = `supervise-${createHash('sha256').update(supervisorProgram).digest('hex').slice(0, 12)}`

export const programIn = (place: string): string => `${place}/${programName}`

/** Where the records of execs are, of watches, and of commands that run to their end: each has limits of its own. */
export const execs = 'execs'
export const watches = 'watches'
export const shortCommands = 'commands'
/** In place of them, for an operation that keeps none. */
export const noRecords = '.'

const flag = { tty: 1, hasInput: 2, keepAwake: 4, waitForReader: 16, inputGiven: 32, isShort: 64 }

type Started = Omit<GuestCallBody<'exec.start'>, 'stdin'> & {
  /** All of it, or true for input that follows. */
  stdin?: string | true | null | undefined
}

/** Starts a command. Of one that is short, the answer tells of its end, if it ends in time. */
export function startWords(request: Started, { folder = execs, waitMs = 0 } = {}): (string | number)[] {
  const { id, command, cwd, env, stdin, tty, timeout_secs, keep_awake, wait_for_reader } = request
  const flags =
    (tty ? flag.tty : 0) |
    (tty || stdin != null ? flag.hasInput : 0) |
    (keep_awake ? flag.keepAwake : 0) |
    (wait_for_reader ? flag.waitForReader : 0) |
    (typeof stdin === 'string' ? flag.inputGiven : 0) |
    (folder === shortCommands ? flag.isShort : 0)
  const argv = Array.isArray(command) ? command : ['/bin/sh', '-c', command]
  const variables = Object.entries(env ?? {}).map(([name, value]) => `${name}=${value}`)
  return [
    ...[folder, 'start', id, flags, timeout_secs ?? 0, tty?.cols ?? 0, tty?.rows ?? 0, cwd ?? '', waitMs],
    ...[variables.length, ...variables],
    ...argv,
  ]
}

/** An exec as its guest reports it. */
export type ExecReport = Omit<ExecStateJson, 'desktop_id'>

/** Flags of the input: no more is accepted, and the command reads no more. */
const noMoreInput = 3
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** One line of a guest, which may say anything. Without the desktop, which the guest does not know. */
export function parseStatus(line: string): ExecReport {
  const [word, id = '', state = '', ...rest] = line.split(' ')
  const reason = rest[2] ?? ''
  const numbers = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map((at) => Number(rest[at]))
  const isValid = word === 'exec' && uuid.test(id) && rest.length === 14 && numbers.every(Number.isSafeInteger)
  if (!isValid || numbers.some((n) => n < 0)) return badAnswer()
  const [code, signal, startedAt, endedAt, flags, timeoutSecs, outStart, outEnd, errStart, errEnd, inEnd, input] =
    numbers as [number, number, number, number, number, number, number, number, number, number, number, number]
  const hasExited = state === 'exited'
  return {
    id,
    state: state as ExecReport['state'],
    exit_code: hasExited && signal === 0 ? code : null,
    signal: hasExited && signal > 0 ? signal : null,
    reason: reason === '-' ? null : (reason as ExecReport['reason']),
    started_at: timeOf(startedAt),
    ended_at: endedAt === 0 ? null : timeOf(endedAt),
    tty: (flags & flag.tty) !== 0,
    keep_awake: (flags & flag.keepAwake) !== 0,
    timeout_secs: timeoutSecs || null,
    stdout: { start: outStart, end: outEnd, dropped_bytes: outStart },
    stderr: { start: errStart, end: errEnd, dropped_bytes: errStart },
    stdin: { end: inEnd, open: state === 'running' && (input & noMoreInput) === 0 },
    command: Buffer.from(rest[13] ?? '', 'base64')
      .toString('utf8')
      .slice(0, 600),
  }
}

/** Seconds of the guest's clock, as far as a date can show them. */
const timeOf = (secs: number): string => new Date(Math.min(secs, 8e12) * 1_000).toISOString()

/** The lines of an answer; the refusal if the supervisor reports why it did not do it. */
export function answerOf(answer: Buffer, started?: Pick<ExecCommand, 'command' | 'cwd'>): string[] {
  const lines = answer.toString('latin1').trimEnd().split('\n')
  const [word, why = ''] = lines[0]!.split(' ')
  if (word !== 'no') return lines
  if (started && notStarted.has(why)) return refuse('command_not_run', notRunReason(why, started))
  const [code, detail] = refusals[why] ?? ['guest_unavailable', 'the guest could not do that']
  return refuse(code, detail)
}

/** Whether the program says why it did not do it. */
export const isFailure = (answer: Buffer): boolean => answer.subarray(0, 3).toString('latin1') === 'no '

/** The system did not start the program. */
const notStarted = new Set(['program', 'absent', 'permission', 'size', 'start', 'folder', 'file'])

const refusals: Record<string, Parameters<typeof refuse>> = {
  unknown: ['exec_unknown', 'the desktop keeps no such exec'],
  terminal: ['command_not_run', 'the guest could not open a terminal'],
  files: ['command_not_run', 'the guest has no file descriptors left'],
  processes: ['command_not_run', 'the guest could not start another process'],
  space: ['no_space', 'the guest has no space for the exec’s output'],
  place: ['no_space', 'the guest has no place for the execs’ output'],
  many: ['exec_limit', 'the desktop runs as many execs as it may, or their output fills its space'],
  input: ['exec_input_closed', 'the exec was started without input'],
  closed: ['exec_input_closed', 'the command takes no more input'],
  busy: ['guest_unavailable', 'the command was killed, but has not ended yet; retry'],
}

/** What is kept of a stream. */
export interface Kept {
  bytes: Buffer
  /** Whether there was more. */
  isCut: boolean
}

export interface EndedCommand extends Pick<ExecReport, 'exit_code' | 'signal' | 'reason'> {
  isLost: boolean
  stdout: Kept
  stderr: Kept
}

/** How a short command ended; undefined if it runs. */
export function parseEnd(answer: Buffer, started?: Pick<ExecCommand, 'command' | 'cwd'>): EndedCommand | undefined {
  const { line, rest } = firstLineOf(answer)
  const report = parseStatus(answerOf(line, started)[0]!)
  if (report.state === 'running') return undefined
  const out = dataOf(rest)
  const err = dataOf(out.rest)
  if (out.from > 0 || err.from > 0 || err.rest.length > 0) badAnswer()
  const { exit_code, signal, reason, stdout, stderr } = report
  return {
    ...{ exit_code, signal, reason, isLost: report.state === 'lost' },
    stdout: { bytes: out.bytes, isCut: stdout.end > out.bytes.length },
    stderr: { bytes: err.bytes, isCut: stderr.end > err.bytes.length },
  }
}

/** What was read: its exec's status, where the bytes begin, and the bytes. */
export function parseRead(answer: Buffer): { exec: ExecReport; from: number; bytes: Buffer } {
  const { line, rest: data } = firstLineOf(answer)
  const [status = ''] = answerOf(line)
  const { from, bytes, rest } = dataOf(data)
  return rest.length > 0 ? badAnswer() : { exec: parseStatus(status), from, bytes }
}

/** `data OFFSET COUNT`, so many bytes, and what follows them. */
function dataOf(answer: Buffer): { from: number; bytes: Buffer; rest: Buffer } {
  const { line, rest } = firstLineOf(answer)
  const [, from, count] = /^data (\d{1,16}) (\d{1,7})\n$/.exec(line.toString('latin1')) ?? badAnswer()
  const size = Number(count)
  if (rest.length < size) badAnswer()
  return { from: Number(from), bytes: rest.subarray(0, size), rest: rest.subarray(size) }
}

function firstLineOf(answer: Buffer): { line: Buffer; rest: Buffer } {
  const end = answer.indexOf('\n') + 1 || answer.length
  return { line: answer.subarray(0, end), rest: answer.subarray(end) }
}

export const badAnswer = (): never =>
  refuse('guest_unavailable', 'the guest’s program sent an answer that is not valid')
