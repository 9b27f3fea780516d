// Entries of a guest's file system, by calls of our program.
import type { EntryChange, GuestEntry, ListEntriesResult } from '@dormouse/contract'
import type { EntriesRequest } from '../driver/guest-transport.ts'
import { changeWords, listInput, listWords, parseEntry, parsePage } from '../scripts/entries.ts'
import { saidBy } from '../scripts/file-failures.ts'
import { entryLimits } from '../scripts/limits.ts'
import type { GuestCalls } from './calls.ts'

export async function listEntries(calls: GuestCalls, request: EntriesRequest): Promise<ListEntriesResult> {
  const input = listInput(request)
  return parsePage(
    saidBy(await calls.call({ words: listWords(request), input, timeoutSecs: entryLimits.listSecs })),
    request,
  )
}

/** Not made again if its connection is lost: a repeat may find its own effect. */
export async function changeEntry(calls: GuestCalls, change: EntryChange, secs: number): Promise<GuestEntry | null> {
  const call = { words: changeWords(change, secs), timeoutSecs: secs + entryLimits.changeMarginSecs }
  const said = saidBy(await calls.call(call, { repeats: false }))
  return change.action === 'remove' ? null : parseEntry(said)
}
