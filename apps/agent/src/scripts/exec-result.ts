// The answer to a command, from what its script printed. Nothing of it is trusted: everything is bounded.
import { basename } from 'node:path'
import {
  couldNotStart,
  type ExecCommand,
  type ExecResult,
  execOutputMaxBytes,
  notRunReason,
  Refusal,
  refuse,
} from '@dormouse/contract'
import type { ProgramEnd } from '../driver/guest-transport.ts'
import { notRunCode, notRunPrefix } from './command.ts'
import { commandLimits } from './limits.ts'

const shownLength = 200

/** The answer, or the refusal of a script that could not start its command. */
export function execResultOf(end: ProgramEnd, nonce: string, command: ExecCommand, durationMs: number): ExecResult {
  refuseNotRun(end, nonce, command)
  refuseUnlaunched(end, command)
  const [out, err] = [asOutput(end.stdout), asOutput(end.stderr)]
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

function refuseNotRun({ exitCode, stderr }: ProgramEnd, nonce: string, command: ExecCommand): void {
  const prefix = notRunPrefix(nonce)
  if (exitCode !== notRunCode || stderr.toString('latin1', 0, prefix.length) !== prefix) return
  refuse('command_not_run', notRunReason(stderr.toString('latin1', prefix.length), command))
}

/**
 * What a shell, `env` or `setsid` prints when the system does not start the program: its interpreter is missing, or its
 * arguments are too long for this guest. Nothing else has printed before.
 */
const launchFailures = [
  /^\S+: (?:\d+: )?exec: (?:line \d+: )?(?<name>.+): (?<why>[^:]+)$/,
  /^\S+: line \d+: (?<name>.+): (?<why>Argument list too long)$/,
  /^\S+: (?:line \d+: )?(?<name>.+): (?<why>cannot execute: .+)$/,
  /^env: (?:can't execute )?['‘](?<name>.+)['’]: (?<why>[^:]+)$/,
  /^setsid: (?:failed to execute |can't execute ')(?<name>.+?)'?: (?<why>[^:]+)$/,
]

function refuseUnlaunched({ exitCode, stdout, stderr }: ProgramEnd, request: ExecCommand): void {
  if ((exitCode !== 126 && exitCode !== 127) || stdout.length > 0) return
  const { command } = request
  const program = Array.isArray(command) ? command[0]! : '/bin/sh'
  const [line = ''] = stderr.toString('utf8', 0, commandLimits.launcherMessageMaxBytes).split('\n')
  for (const form of launchFailures) {
    const { name = '', why = '' } = form.exec(line)?.groups ?? {}
    // Some shells show the path at which they found it.
    if (name !== 'env' && basename(name) !== basename(program)) continue
    refuse('command_not_run', `${couldNotStart(request)}: ${why.slice(0, shownLength)}`)
  }
}

/** The refusal of a command that did not start before its deadline. */
export const startedTooLate = () =>
  new Refusal('guest_deadline', 'the guest is busy and did not start the command before its deadline')

/** What a command that was ended at its deadline had printed, for callers that want it; otherwise the refusal. */
export function timedOutResult(end: ProgramEnd, command: ExecCommand, durationMs: number): ExecResult {
  if (!command.showsTimeout) throw ranTooLong(command)
  const [out, err] = [asOutput(end.stdout), asOutput(end.stderr)]
  const [stdout, stderr] = [fitted(out, commandLimits.replyMaxBytes / 2), fitted(err, commandLimits.replyMaxBytes / 2)]
  return {
    ...{ exitCode: null, signal: null, stdout: stdout.text, stderr: stderr.text, timedOut: true, durationMs },
    ...{ stdoutTruncated: stdout.truncated, stderrTruncated: stderr.truncated },
  }
}

/** The refusal of a command that was ended at its deadline. */
export const ranTooLong = ({ timeoutSecs }: Pick<ExecCommand, 'timeoutSecs'>) =>
  new Refusal('guest_deadline', `the command ran longer than ${timeoutSecs} s and was ended`)

interface Output {
  text: string
  truncated: boolean
}

function asOutput(bytes: Buffer): Output {
  return { text: bytes.toString('utf8', 0, execOutputMaxBytes), truncated: bytes.length > execOutputMaxBytes }
}

function fitted({ text, truncated }: Output, maxBytes: number): Output {
  let fit = text
  while (escapedBytes(fit) > maxBytes) fit = fit.slice(0, Math.floor((fit.length * maxBytes) / escapedBytes(fit)) - 1)
  return { text: fit, truncated: truncated || fit.length < text.length }
}

const escapedBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text))
