// Runs a script that works on files through QEMU's guest agent.
import { refuse } from '@dormouse/contract'
import { type AgentCall, AgentRefused } from '../driver/guest-access.ts'
import { fileRefusal, printedBy } from '../scripts/file-failures.ts'
import { fileLimits } from '../scripts/limits.ts'
import { programEnd, startProgram } from './programs.ts'

/** What the script prints, or the refusal of the guest's file system. */
export async function runFileScript(
  call: AgentCall,
  script: string,
  timeoutMs: number = fileLimits.scriptMs,
): Promise<Buffer> {
  const pid = await startProgram(call, { path: '/bin/sh', arg: ['-c', script], 'capture-output': true })
  const end = await programEnd(call, pid, performance.now() + timeoutMs)
  const secs = timeoutMs / 1_000
  if (!end) return refuse('guest_deadline', `the guest’s file system did not answer within ${secs} s`)
  return printedBy(end)
}

/** The agent's refusal ends with the message of the guest's file system. */
export async function asFileRefusal<T>(calling: Promise<T>): Promise<T> {
  try {
    return await calling
  } catch (error) {
    throw error instanceof AgentRefused ? fileRefusal(error.message, error) : error
  }
}
