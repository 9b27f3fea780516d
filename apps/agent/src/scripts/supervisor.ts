// The supervisor's operations as commands, and its answers. The program's source: apps/agent/supervisor. Pure.
import { createHash } from 'node:crypto'
import { type CommandPayload, type ExecCommand, type ExecReport, notRunReason, refuse } from '@dormouse/contract'
import { supervisorProgram } from './supervisor-program.ts'

/** Where a guest may keep the program and the execs, the first that works. `/run` forgets them when the guest boots. */
export const supervisorPlaces = ['/var/lib/dormouse', '/root/.dormouse', '/run/dormouse-execs'] as const

/** Each release of it has its own name: those that run go on. */
const programName = `supervise-${createHash('sha256').update(supervisorProgram).digest('hex').slice(0, 12)}`

export const programIn = (place: string): string => `${place}/${programName}`

/** Where execs are kept, and where watches: each has limits of its own. */
export const execsIn = (place: string): string => `${place}/execs`
export const watchesIn = (place: string): string => `${place}/watches`

export const operation = (place: string, folder: string, args: readonly (string | number)[]): string[] => [
  programIn(place),
  folder,
  ...args.map(String),
]

const flag = { tty: 1, hasInput: 2, keepAwake: 4, waitForReader: 16 }

export function startArgs(request: CommandPayload<'exec.start'>): (string | number)[] {
  const { tty, hasInput, keepAwake, waitForReader, command, timeoutSecs, execId } = request
  const flags =
    (tty ? flag.tty : 0) |
    (hasInput || tty ? flag.hasInput : 0) |
    (keepAwake ? flag.keepAwake : 0) |
    (waitForReader ? flag.waitForReader : 0)
  const argv = Array.isArray(command) ? command : ['/bin/sh', '-c', command]
  return ['start', execId, flags, timeoutSecs ?? 0, tty?.cols ?? 0, tty?.rows ?? 0, ...argv]
}

/** Flags of the input: no more is accepted, and the command reads no more. */
const noMoreInput = 3
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** One line of a guest, which may say anything. */
export function parseStatus(line: string): ExecReport {
  const [word, execId = '', state = '', ...rest] = line.split(' ')
  const reason = rest[2] ?? ''
  const numbers = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map((at) => Number(rest[at]))
  const isValid = word === 'exec' && uuid.test(execId) && rest.length === 14 && numbers.every(Number.isSafeInteger)
  if (!isValid || numbers.some((n) => n < 0)) return badAnswer()
  const [code, signal, startedAt, endedAt, flags, timeoutSecs, outStart, outEnd, errStart, errEnd, inEnd, input] =
    numbers as [number, number, number, number, number, number, number, number, number, number, number, number]
  const hasExited = state === 'exited'
  return {
    execId,
    state: state as ExecReport['state'],
    exitCode: hasExited && signal === 0 ? code : null,
    signal: hasExited && signal > 0 ? signal : null,
    reason: reason === '-' ? null : (reason as ExecReport['reason']),
    startedAt,
    endedAt: endedAt || null,
    tty: (flags & flag.tty) !== 0,
    keepAwake: (flags & flag.keepAwake) !== 0,
    timeoutSecs: timeoutSecs || null,
    stdout: { start: outStart, end: outEnd },
    stderr: { start: errStart, end: errEnd },
    stdin: { end: inEnd, open: state === 'running' && (input & noMoreInput) === 0 },
    title: Buffer.from(rest[13] ?? '', 'base64')
      .toString('utf8')
      .slice(0, 600),
  }
}

/** The lines of an answer; the refusal if the supervisor reports why it did not do it. */
export function answerOf(stdout: string, started?: Pick<ExecCommand, 'command' | 'cwd'>): string[] {
  const lines = stdout.trimEnd().split('\n')
  const [word, why = ''] = lines[0]!.split(' ')
  if (word !== 'no') return lines
  if (started && notStarted.has(why)) return refuse('command_not_run', notRunReason(why, started))
  const [code, detail] = refusals[why] ?? ['guest_unavailable', 'the guest could not do that']
  return refuse(code, detail)
}

/** The system did not start the program. */
const notStarted = new Set(['absent', 'permission', 'size', 'start'])

const refusals: Record<string, Parameters<typeof refuse>> = {
  unknown: ['exec_unknown', 'the desktop keeps no such exec'],
  terminal: ['command_not_run', 'the guest could not open a terminal'],
  files: ['command_not_run', 'the guest has no file descriptors left'],
  processes: ['command_not_run', 'the guest could not start another process'],
  space: ['no_space', 'the guest has no space for the exec’s output'],
  folder: ['no_space', 'the guest has no place for the execs’ output'],
  many: ['exec_limit', 'the desktop runs as many execs as it may, or their output fills its space'],
  input: ['exec_input_closed', 'the exec was started without input'],
  closed: ['exec_input_closed', 'the command takes no more input'],
  busy: ['guest_unavailable', 'the command was killed, but has not ended yet; retry'],
}

interface Output {
  /** Its exec's status, and where the bytes are. */
  lines: string[]
  bytes: Buffer
}

/** What was read by a command: the bytes are a line of base64. */
export const printedOutput = ([status = '', head = '', data = '']: string[]): Output => ({
  lines: [status, head],
  bytes: Buffer.from(data, 'base64'),
})

/** What was read over a stream: the bytes follow the two lines as they are. */
export function servedOutput(answer: Buffer): Output {
  const end = answer.indexOf('\n', answer.indexOf('\n') + 1) + 1
  return { lines: answerOf(answer.toString('latin1', 0, end || answer.length)), bytes: answer.subarray(end) }
}

export const badAnswer = (): never =>
  refuse('guest_unavailable', 'the guest’s supervisor sent an answer that is not valid')
