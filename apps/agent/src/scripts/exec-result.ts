// What came back of a command in a guest, as the contract wants it. A guest's word is untrusted: everything is bounded.
import { type ExecCommand, type ExecResult, execOutputMaxBytes, refuse } from '@dormouse/contract'
import { notRunCode, notRunWord, trailerWord } from './exec.ts'

export interface Ended {
  exitCode: number | undefined
  signal: number | undefined
  stdout: Buffer
  stderr: Buffer
}

/** A reply must fit into one frame of the link, however its bytes are escaped. */
const escapedMaxBytes = 3.75 * 1024 * 1024

/** What the program that starts a command through the guest agent says when it cannot. */
const launcherSays = (program: string) => [
  `setsid: failed to execute ${program}: `,
  `setsid: can't execute '${program}': `,
]
const launcherMaxBytes = 8 * 1024

const noProgram = 'the guest has no such program, or may not run it'
const reasons: Record<string, string> = {
  program: noProgram,
  folder: 'the guest has no such folder to run it in',
  space: 'the guest has no room for the command’s output',
  input: 'the guest has no room for the command’s input',
}

export function resultOf(ended: Ended, nonce: string, durationMs: number): ExecResult {
  const { exitCode, signal } = ended
  const notRun = notRunWord(nonce)
  if (exitCode === notRunCode && ended.stderr.toString('latin1', 0, notRun.length) === notRun) {
    const reason = ended.stderr.toString('latin1', notRun.length)
    refuse('command_not_run', reasons[reason] ?? 'the guest could not start the command')
  }
  const { stderr, cut } = withoutTrailer(ended.stderr, nonce)
  const out = kept(ended.stdout, cut.includes('o'))
  const err = kept(stderr, cut.includes('e'))
  const half = escapedMaxBytes / 2
  const room = Math.max(half, escapedMaxBytes - escapedBytes(err.text))
  const stdout = fitted(out, room)
  const shown = fitted(err, escapedMaxBytes - escapedBytes(stdout.text))
  return {
    exitCode: signal === undefined ? (exitCode ?? null) : null,
    signal: signal ?? null,
    stdout: stdout.text,
    stderr: shown.text,
    stdoutTruncated: stdout.truncated,
    stderrTruncated: shown.truncated,
    durationMs,
  }
}

/** Refuses where `setsid`, which was to start a program, could not; a shell that was started says that for itself. */
export function refuseUnlaunched({ exitCode, stderr }: Ended, { command }: ExecCommand): void {
  if (!Array.isArray(command) || (exitCode !== 126 && exitCode !== 127)) return
  const said = stderr.toString('utf8', 0, launcherMaxBytes)
  if (launcherSays(command[0]!).some((words) => said.startsWith(words))) refuse('command_not_run', noProgram)
}

interface Kept {
  text: string
  truncated: boolean
}

function withoutTrailer(stderr: Buffer, nonce: string): { stderr: Buffer; cut: string } {
  const word = trailerWord(nonce)
  const at = stderr.lastIndexOf(word, undefined, 'latin1')
  if (at < 0) return { stderr, cut: '' }
  return { stderr: stderr.subarray(0, at), cut: stderr.toString('latin1', at + word.length) }
}

function kept(bytes: Buffer, cut: boolean): Kept {
  return { text: bytes.toString('utf8', 0, execOutputMaxBytes), truncated: cut || bytes.length > execOutputMaxBytes }
}

function fitted({ text, truncated }: Kept, roomBytes: number): Kept {
  let fit = text
  while (escapedBytes(fit) > roomBytes) fit = fit.slice(0, Math.floor((fit.length * roomBytes) / escapedBytes(fit)) - 1)
  return { text: fit, truncated: truncated || fit.length < text.length }
}

const escapedBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text))
