// The journal of the release before: one file per desktop in `journal/`, and the epoch in `epoch.json`. It is read once.
// Then a file is left there that such a release cannot read, so that it does not start with an empty journal.
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isId } from '@dormouse/contract'
import { z } from 'zod'
import { privateFolder, readIfThere, syncPath, unlessMissing, writeDurably } from '../mechanics/durable-file.ts'
import { type Entry, entrySchema } from './journal-entry.ts'

/** Its name is like an entry's, so an older release reads it, and stops with its path in the error. */
const barrier = '00000000-0000-7000-8000-000000000000.json'
const barrierText = `The journal of this agent is in ../journal.log. An older release would start with an empty journal, so it stops here.
Install the release that you have upgraded to.
`
/** How many entries are read before the event loop runs other work. */
const filesAtOnce = 250

interface OldJournal {
  entries: Entry[]
  epoch: number
  /** All of it was taken over before; what is left was not removed yet. */
  takenOver: boolean
}

/** Throws, with the file's name, where a file cannot be read. */
export async function readOldJournal(stateFolder: string): Promise<OldJournal> {
  const folder = join(stateFolder, 'journal')
  const names = (await readdir(folder).catch(unlessMissing)) ?? []
  const old: OldJournal = { entries: [], epoch: 0, takenOver: names.includes(barrier) }
  for (const [at, name] of names.entries()) {
    if (name !== barrier && isId(name.replace(/\.json$/, ''))) old.entries.push(readEntry(join(folder, name)))
    if (at % filesAtOnce === 0) await nextTurn()
  }
  const epoch = await readIfThere(join(stateFolder, 'epoch.json'))
  if (epoch) old.epoch = z.object({ epoch: z.int().min(0) }).parse(JSON.parse(epoch)).epoch
  return old
}

/** Synchronous, because that reads tens of thousands of tombstones in a second; asynchronous reads take many. */
function readEntry(path: string): Entry {
  try {
    return entrySchema.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (cause) {
    throw new Error(`the journal ${path} cannot be read; restore it, or move it out of the folder`, { cause })
  }
}

/**
 * Call it when everything is on the disk elsewhere. The barrier comes first: until it is on the disk, an older release
 * finds all that it has written.
 */
export async function removeOldJournal(stateFolder: string, hit: (name: string) => Promise<void>): Promise<void> {
  const folder = await privateFolder(join(stateFolder, 'journal'))
  if (!readdirSync(folder).includes(barrier)) await writeDurably(join(folder, barrier), barrierText)
  await hit('journal.migrate.barrier')
  // Also the reserve of the release before: the log has its own.
  for (const name of ['epoch.json', 'reserve']) await rm(join(stateFolder, name), { recursive: true, force: true })
  for (const name of readdirSync(folder)) if (name !== barrier) await rm(join(folder, name), { force: true })
  await syncPath(folder)
}
