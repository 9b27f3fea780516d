// Entries of a guest's file system over its SSH connection.
import { randomBytes } from 'node:crypto'
import type { EntryChange, GuestEntry, ListEntriesResult } from '@dormouse/contract'
import type { EntriesRequest } from '../driver/guest-transport.ts'
import { listScript, parseEntry, parsePage } from '../scripts/entries.ts'
import { changeScript } from '../scripts/entry-changes.ts'
import { printedBy } from '../scripts/file-failures.ts'
import { entryLimits } from '../scripts/limits.ts'
import type { SshConnection } from './connection.ts'
import { runScript } from './run-script.ts'

export async function listOverSsh(connection: SshConnection, request: EntriesRequest): Promise<ListEntriesResult> {
  const nonce = randomBytes(12).toString('hex')
  const end = await runScript(connection, listScript(request, nonce), entryLimits.listMs)
  return parsePage(printedBy(end), request, nonce)
}

export async function changeOverSsh(
  connection: SshConnection,
  change: EntryChange,
  timeoutSecs: number,
): Promise<GuestEntry | null> {
  const nonce = randomBytes(12).toString('hex')
  const timeoutMs = timeoutSecs * 1_000 + entryLimits.changeMarginMs
  const printed = printedBy(await runScript(connection, changeScript(change, nonce, timeoutSecs), timeoutMs))
  return change.action === 'remove' ? null : parseEntry(printed, nonce)
}
