// The first line that a script prints over SSH.
import { refuse } from '@dormouse/contract'
import { fileLimits } from '../scripts/limits.ts'
import type { ScriptStream } from './script-stream.ts'

const newline = 10

export interface FirstLine {
  line: string
  rest: Buffer
}

/** Without its newline, and what came behind it; `guest_unavailable` if the script prints none, or too much. */
export async function firstLine(stream: ScriptStream): Promise<FirstLine> {
  let printed = Buffer.alloc(0)
  while (printed.length <= fileLimits.messageMaxLength) {
    const bytes = await stream.read()
    if (!bytes) break
    const end = bytes.indexOf(newline)
    const line = end < 0 ? bytes : bytes.subarray(0, end)
    printed = Buffer.concat([printed, line])
    if (end >= 0) return { line: printed.toString('latin1'), rest: bytes.subarray(end + 1) }
  }
  return refuse('guest_unavailable', 'the guest did not report the file’s size')
}
