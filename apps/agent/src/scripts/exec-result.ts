// The answer to a command, from what its script printed. Nothing of it is trusted: everything is bounded.
import { type ExecCommand, type ExecResult, execOutputMaxBytes, Refusal, refuse } from '@dormouse/contract'
import { trailerPrefix } from './collected-command.ts'
import { notRunCode, notRunPrefix } from './command.ts'
import { commandLimits } from './limits.ts'

/** How a program ended, and what it printed. */
export interface ProgramEnd {
  exitCode: number | undefined
  signal: number | undefined
  stdout: Buffer
  stderr: Buffer
}

const noProgram = 'the guest has no such program, or it is not executable'
const notRunReasons: Record<string, string> = {
  program: noProgram,
  folder: 'the guest has no such folder to run the command in',
  space: 'the guest has no space for the command’s output',
  input: 'the guest has no space for the command’s input',
}

/** The answer, or the refusal of a script that could not start its command. */
export function execResultOf(end: ProgramEnd, nonce: string, durationMs: number): ExecResult {
  refuseNotRun(end, nonce)
  const { stderr, cut } = splitTrailer(end.stderr, nonce)
  const out = asOutput(end.stdout, cut.includes('o'))
  const err = asOutput(stderr, cut.includes('e'))
  const { replyMaxBytes } = commandLimits
  const stdout = fitted(out, Math.max(replyMaxBytes / 2, replyMaxBytes - escapedBytes(err.text)))
  const rest = fitted(err, replyMaxBytes - escapedBytes(stdout.text))
  return {
    exitCode: end.signal === undefined ? (end.exitCode ?? null) : null,
    signal: end.signal ?? null,
    stdout: stdout.text,
    stderr: rest.text,
    stdoutTruncated: stdout.truncated,
    stderrTruncated: rest.truncated,
    durationMs,
  }
}

function refuseNotRun({ exitCode, stderr }: ProgramEnd, nonce: string): void {
  const prefix = notRunPrefix(nonce)
  if (exitCode !== notRunCode || stderr.toString('latin1', 0, prefix.length) !== prefix) return
  const reason = stderr.toString('latin1', prefix.length)
  refuse('command_not_run', notRunReasons[reason] ?? 'the guest could not start the command')
}

/** What `setsid`, which starts a command for the guest agent, prints when it cannot. */
const launcherMessages = (program: string) => [
  `setsid: failed to execute ${program}: `,
  `setsid: can't execute '${program}': `,
]

/** Refuses where `setsid` could not start the program. Where the command is a shell, that shell reports it in its output. */
export function refuseUnlaunched({ exitCode, stderr }: ProgramEnd, { command }: ExecCommand): void {
  if (!Array.isArray(command) || (exitCode !== 126 && exitCode !== 127)) return
  const message = stderr.toString('utf8', 0, commandLimits.launcherMessageMaxBytes)
  if (launcherMessages(command[0]!).some((start) => message.startsWith(start))) refuse('command_not_run', noProgram)
}

/** The refusal of a command that did not start before its deadline. */
export const startedTooLate = () =>
  new Refusal('guest_deadline', 'the guest is busy and did not start the command before its deadline')

/** The refusal of a command that was ended at its deadline. */
export const ranTooLong = ({ timeoutSecs }: Pick<ExecCommand, 'timeoutSecs'>) =>
  new Refusal('guest_deadline', `the command ran longer than ${timeoutSecs} s and was ended`)

interface Output {
  text: string
  truncated: boolean
}

function splitTrailer(stderr: Buffer, nonce: string): { stderr: Buffer; cut: string } {
  const prefix = trailerPrefix(nonce)
  const at = stderr.lastIndexOf(prefix, undefined, 'latin1')
  if (at < 0) return { stderr, cut: '' }
  return { stderr: stderr.subarray(0, at), cut: stderr.toString('latin1', at + prefix.length) }
}

function asOutput(bytes: Buffer, cut: boolean): Output {
  return { text: bytes.toString('utf8', 0, execOutputMaxBytes), truncated: cut || bytes.length > execOutputMaxBytes }
}

function fitted({ text, truncated }: Output, maxBytes: number): Output {
  let fit = text
  while (escapedBytes(fit) > maxBytes) fit = fit.slice(0, Math.floor((fit.length * maxBytes) / escapedBytes(fit)) - 1)
  return { text: fit, truncated: truncated || fit.length < text.length }
}

const escapedBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text))
