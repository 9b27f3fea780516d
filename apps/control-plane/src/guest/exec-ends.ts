// How a short command ends: its timeout, and the refusal that shows what it had printed by then.
import { type ExecBody, type ExecJson, execTimeoutDefaultSecs, execTimeoutMaxSecs, refuse } from '@dormouse/contract'

/** How much of each stream a problem contains. */
const shownBytes = 64 * 1024

export const shortTimeoutSecs = ({ timeout_secs }: Pick<ExecBody, 'timeout_secs'>): number =>
  Math.min(timeout_secs ?? execTimeoutDefaultSecs, execTimeoutMaxSecs)

/** Throws the refusal of a command that was ended at its timeout, with the beginning of what it had printed. */
export function timedOut(printed: ExecJson, timeoutSecs: number): never {
  const [stdout, stderr] = [briefly(printed.stdout), briefly(printed.stderr)]
  return refuse('guest_deadline', `the command ran longer than ${timeoutSecs} s and was ended; allow it more time`, {
    stdout,
    stderr,
    stdout_truncated: printed.stdout_truncated || stdout.length < printed.stdout.length,
    stderr_truncated: printed.stderr_truncated || stderr.length < printed.stderr.length,
  })
}

/** The beginning, without a character that the cut would halve. */
function briefly(text: string): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= shownBytes) return text
  let end = shownBytes
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
