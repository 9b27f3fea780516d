// Files that the guest agent holds open, by their handles, in pieces that its channel can carry.
import { z } from 'zod'
import type { AgentCall } from '../driver/guest-access.ts'
import { agentLimits, fileLimits } from '../scripts/limits.ts'
import { parseAnswer, runScript } from './programs.ts'

const handleAnswer = z.int()
const readAnswer = z.object({ 'buf-b64': z.string(), eof: z.boolean() })

export async function openHandle(call: AgentCall, path: string, mode: 'r' | 'r+' | 'w'): Promise<number> {
  return parseAnswer(handleAnswer, await call('guest-file-open', { path, mode }))
}

export async function readBytes(call: AgentCall, handle: number): Promise<{ bytes: Buffer; eof: boolean }> {
  const answer = parseAnswer(readAnswer, await call('guest-file-read', { handle, count: fileLimits.agentReadBytes }))
  const bytes = Buffer.from(answer['buf-b64'], 'base64')
  return { bytes, eof: answer.eof || bytes.length === 0 }
}

export async function writeBytes(call: AgentCall, handle: number, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; at += fileLimits.agentWriteBytes) {
    const part = bytes.subarray(at, at + fileLimits.agentWriteBytes).toString('base64')
    await call('guest-file-write', { handle, 'buf-b64': part })
  }
}

/** Writes a file that only root may read. The script creates it: the agent would create it writable by all, for a moment. */
export async function writePrivateFile(call: AgentCall, path: string, bytes: Buffer): Promise<void> {
  await runScript(call, `umask 077; : >${path}`, agentLimits.uploadMs)
  const handle = await openHandle(call, path, 'r+')
  await writeBytes(call, handle, bytes)
  await call('guest-file-close', { handle })
}
