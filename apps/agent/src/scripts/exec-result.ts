// The answer to a command, from what it printed. Nothing of it is trusted: everything is bounded.
import { type ExecCommand, type ExecResult, execOutputMaxBytes, Refusal } from '@dormouse/contract'
import { replyMaxBytes } from './limits.ts'
import type { EndedCommand, Kept } from './supervisor.ts'

export function execResultOf(end: EndedCommand, durationMs: number): ExecResult {
  const [out, err] = [asOutput(end.stdout), asOutput(end.stderr)]
  const stdout = fitted(out, Math.max(replyMaxBytes / 2, replyMaxBytes - escapedBytes(err.text)))
  const rest = fitted(err, replyMaxBytes - escapedBytes(stdout.text))
  return {
    exitCode: end.exit_code,
    signal: end.signal,
    stdout: stdout.text,
    stderr: rest.text,
    stdoutTruncated: stdout.truncated,
    stderrTruncated: rest.truncated,
    durationMs,
  }
}

/** The refusal of a command that did not start before its deadline. */
export const startedTooLate = () =>
  new Refusal('guest_deadline', 'the guest is busy and did not start the command before its deadline')

/** What a command that was ended at its deadline had printed, for callers that want it; otherwise the refusal. */
export function timedOutResult(
  end: Pick<EndedCommand, 'stdout' | 'stderr'>,
  command: Pick<ExecCommand, 'timeoutSecs' | 'showsTimeout'>,
  durationMs: number,
): ExecResult {
  if (!command.showsTimeout) throw ranTooLong(command)
  const half = replyMaxBytes / 2
  const [stdout, stderr] = [fitted(asOutput(end.stdout), half), fitted(asOutput(end.stderr), half)]
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

function asOutput({ bytes, isCut }: Kept): Output {
  return { text: bytes.toString('utf8', 0, execOutputMaxBytes), truncated: isCut || bytes.length > execOutputMaxBytes }
}

function fitted({ text, truncated }: Output, maxBytes: number): Output {
  let fit = text
  while (escapedBytes(fit) > maxBytes) fit = fit.slice(0, Math.floor((fit.length * maxBytes) / escapedBytes(fit)) - 1)
  return { text: fit, truncated: truncated || fit.length < text.length }
}

const escapedBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text))
