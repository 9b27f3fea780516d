// The first line that a script prints over SSH, if nothing follows before the script has got its input.
import { refuse } from '@dormouse/contract'
import { fileLimits } from '../scripts/limits.ts'
import type { ScriptStream } from './script-stream.ts'

/** Without its newline; `guest_unavailable` where the script prints none, or too much. */
export async function firstLine(stream: ScriptStream): Promise<string> {
  let line = ''
  while (line.length <= fileLimits.messageMaxLength) {
    const bytes = await stream.read()
    if (!bytes) break
    line += bytes.toString('latin1')
    if (line.endsWith('\n')) return line.slice(0, -1)
  }
  return refuse('guest_unavailable', 'the guest did not report the file’s size')
}
