// Entries of a guest's file system through QEMU's guest agent.
import { randomBytes } from 'node:crypto'
import type { EntryChange, GuestEntry, ListEntriesResult } from '@dormouse/contract'
import type { AgentCall } from '../driver/guest-access.ts'
import type { EntriesRequest } from '../driver/guest-transport.ts'
import { listScript, parseEntry, parsePage } from '../scripts/entries.ts'
import { changeScript } from '../scripts/entry-changes.ts'
import { entryLimits } from '../scripts/limits.ts'
import { runFileScript } from './file-script.ts'

export async function listThroughAgent(call: AgentCall, request: EntriesRequest): Promise<ListEntriesResult> {
  const nonce = randomBytes(12).toString('hex')
  return parsePage(await runFileScript(call, listScript(request, nonce), entryLimits.listMs), request, nonce)
}

export async function changeThroughAgent(
  call: AgentCall,
  change: EntryChange,
  timeoutSecs: number,
): Promise<GuestEntry | null> {
  const nonce = randomBytes(12).toString('hex')
  const timeoutMs = timeoutSecs * 1_000 + entryLimits.changeMarginMs
  const printed = await runFileScript(call, changeScript(change, nonce, timeoutSecs), timeoutMs)
  return change.action === 'remove' ? null : parseEntry(printed, nonce)
}
