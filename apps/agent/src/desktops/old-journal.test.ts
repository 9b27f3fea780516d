// Guarantee: an upgrade takes over every entry, whatever moment it is cut off at, and a downgrade does not begin with an
// empty journal.
import { mkdirSync, mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isId, newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Journal } from './journal.ts'
import { type Entry, newEntry } from './journal-entry.ts'

/** How the release before reads its journal; its schema was this one. */
function oldReader(folder: string): Entry[] {
  const names = readdirSync(join(folder, 'journal')).filter((name) => isId(name.replace(/\.json$/, '')))
  return names.map((name) => {
    const path = join(folder, 'journal', name)
    try {
      return JSON.parse(readFileSync(path, 'utf8')) as Entry
    } catch (cause) {
      throw new Error(`the journal ${path} cannot be read; restore it, or move it out of the folder`, { cause })
    }
  })
}

function oldJournal() {
  const folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-journal-'))
  mkdirSync(join(folder.path, 'journal'))
  mkdirSync(join(folder.path, 'reserve'))
  const write = (entry: Entry) =>
    writeFileSync(join(folder.path, 'journal', `${entry.desktopId}.json`), JSON.stringify(entry))
  const entries = [3, 7].map((turn) => ({ ...newEntry(newId()), generation: 1, turn, operationId: newId() }))
  for (const entry of entries) write(entry)
  writeFileSync(join(folder.path, 'journal', `${entries[0]!.desktopId}.json.77-1.tmp`), '{"half":')
  writeFileSync(join(folder.path, 'epoch.json'), '{"epoch":9}')
  return { path: folder.path, entries, write, [Symbol.dispose]: () => folder.remove() }
}

const sorted = (entries: Entry[]) => entries.toSorted((a, b) => a.turn - b.turn)

const steps = ['replace.written', 'replace.synced', 'replace.renamed', 'migrate.barrier']

test('the files of the release before are taken over and removed', async () => {
  using old = oldJournal()
  await (await Journal.open(old.path)).close()
  expect(readdirSync(old.path).sort()).toEqual(['journal', 'journal.log'])
  await using journal = await Journal.open(old.path)
  expect(sorted(journal.all())).toEqual(old.entries)
  expect(journal.highestEpoch).toBe(9)
})

test('the release before stops at what is left for it, by name, also where it never had a journal', async () => {
  using old = oldJournal()
  expect(sorted(oldReader(old.path))).toEqual(old.entries)
  await (await Journal.open(old.path)).close()
  expect(() => oldReader(old.path)).toThrow(/journal\/00000000-0000-7000-8000-000000000000\.json cannot be read/)
  using fresh = mkdtempDisposableSync(join(tmpdir(), 'dormouse-journal-'))
  await (await Journal.open(fresh.path)).close()
  expect(() => oldReader(fresh.path)).toThrow('cannot be read')
})

test.each(steps)(
  'an upgrade that is cut off at %s is repeated, and until then the release before has all',
  async (step) => {
    using old = oldJournal()
    const cut = async (name: string) => {
      if (name === `journal.${step}`) throw new Error('cut off')
    }
    await expect(Journal.open(old.path, cut)).rejects.toThrow('cut off')
    if (step === 'migrate.barrier') expect(() => oldReader(old.path)).toThrow('cannot be read')
    else expect(sorted(oldReader(old.path))).toEqual(old.entries)
    // The release before may go on from there.
    const [first, second] = old.entries as [Entry, Entry]
    const later = { ...first, running: true }
    if (step !== 'migrate.barrier') old.write(later)
    await (await Journal.open(old.path)).close()
    await using journal = await Journal.open(old.path)
    expect(sorted(journal.all())).toEqual([step === 'migrate.barrier' ? first : later, second])
    expect(journal.highestEpoch).toBe(9)
    expect(readdirSync(join(old.path, 'journal'))).toHaveLength(1)
  },
)

test('a file of the release before that cannot be read stops the agent, and names it', async () => {
  using old = oldJournal()
  const { desktopId } = old.entries[0]!
  writeFileSync(join(old.path, 'journal', `${desktopId}.json`), '{}')
  await expect(Journal.open(old.path)).rejects.toThrow(`${desktopId}.json cannot be read`)
})
