// The last command that this host has accepted for each desktop, written before any work begins. So no late, lost or repeated
// command of a lower turn changes anything, even after the agent was killed. Knows nothing of hypervisors.
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type DesktopId, type Fence, id, refuse } from '@dormouse/contract'
import { KeyedMutex, StartError } from '@dormouse/process'
import { z } from 'zod'
import { AppendLog, type AppendOptions, readLogFile } from '../mechanics/append-log.ts'
import { privateFolder } from '../mechanics/durable-file.ts'
import { diskFull, isFull, refuseFull } from '../mechanics/full-disk.ts'
import { comparePairs, type Entry, entrySchema, type Note, newEntry, ofThisTurn, type Pair } from './journal-entry.ts'

export interface WriteOptions {
  /** The work frees space or undoes something, so on a full disk it may use the reserve. */
  freesSpace?: boolean
  /**
   * A power cut may lose the change, so nobody waits for the disk. A change of `command`, `state` and `failure` alone is not even
   * written at once: each command checks by itself how far an earlier one has come.
   */
  unsynced?: boolean
  /** The change is on the disk only when `synced` has resolved. */
  syncLater?: boolean
}

/** A later record of a desktop replaces an earlier one. */
const recordSchema = z.union([
  z.object({ entry: entrySchema }),
  z.object({ forget: id }),
  z.object({ epoch: z.int().min(0) }),
])

/** After this long, progress is written that no other change of its desktop has taken along. */
const progressMs = 1_000

const logPath = (stateFolder: string) => join(stateFolder, 'journal.log')

export class Journal {
  readonly #hit: (name: string) => Promise<void>
  readonly #entries = new Map<DesktopId, Entry>()
  readonly #lock = new KeyedMutex()
  /** From each desktop with changes that `synced` has to wait for to the last of them, by its number in the log. */
  readonly #unsynced = new Map<DesktopId, number>()
  /** Desktops whose progress is not written yet. */
  readonly #progress = new Set<DesktopId>()
  #progressTimer: NodeJS.Timeout | undefined
  #epoch = 0
  /** Undefined in a journal that is only read. */
  #log: AppendLog | undefined

  private constructor(hit: (name: string) => Promise<void>) {
    this.#hit = hit
  }

  /**
   * Reads all entries. A journal that cannot be read stops the agent, because a guess could corrupt a disk. `hit` is called
   * before each write, and at each step that replaces a file.
   */
  static async open(
    stateFolder: string,
    hit: (name: string) => Promise<void> = async () => undefined,
  ): Promise<Journal> {
    privateFolder(stateFolder)
    const journal = new Journal(hit)
    const path = logPath(stateFolder)
    const content = readLogFile(path)
    for (const record of content?.records ?? []) journal.#load(record, path)
    journal.#log = await AppendLog.open({ path, snapshot: () => journal.#records(), hit }, content)
    return journal
  }

  /** Only for reading, since another process may be writing it. */
  static view(stateFolder: string): Journal {
    const journal = new Journal(async () => undefined)
    const path = logPath(stateFolder)
    for (const record of readLogFile(path)?.records ?? []) journal.#load(record, path)
    return journal
  }

  /** Why nothing can be accepted any more; undefined while the journal can be written. */
  get failure(): Error | undefined {
    return this.#log?.failure
  }

  /** Whether the reserve for work that frees space is whole. */
  get hasReserve(): boolean {
    return this.#writer.hasReserve
  }

  /** Makes the reserve whole; returns false if the disk has no space for it. */
  refillReserve(): Promise<boolean> {
    return this.#writer.refillReserve()
  }

  get highestEpoch(): number {
    return this.#epoch
  }

  all(): Entry[] {
    return [...this.#entries.values()]
  }

  read(desktopId: DesktopId): Entry | undefined {
    return this.#entries.get(desktopId)
  }

  /** Refuses an epoch lower than the highest known; a higher one is on disk when this returns. */
  async raiseEpoch(epoch: number): Promise<void> {
    if (epoch < this.#epoch) refuse('stale_epoch', `epoch ${epoch} is over; this host knows epoch ${this.#epoch}`)
    if (epoch === this.#epoch) return
    await this.#lock.run('epoch', async () => {
      if (epoch <= this.#epoch) return
      const onWritten = () => {
        this.#epoch = epoch
      }
      await this.#append({ epoch }, { onWritten }, { freesSpace: true })
    })
  }

  /** Records that work on this command begins; on disk, unless that is for later. While the reserve is incomplete, nothing new begins. */
  async accept(fence: Fence, command: string, note: Note = {}, options: WriteOptions = {}): Promise<Entry> {
    if (!options.freesSpace && !(await this.refillReserve())) refuseFull()
    return this.#change(fence.desktopId, options, (entry) => ({
      ...entry,
      ...(comparePairs(fence, entry) > 0 ? ofThisTurn : {}),
      ...note,
      generation: fence.generation,
      turn: fence.turn,
      operationId: fence.operationId,
      command,
      state: 'doing',
    }))
  }

  /** Records a change in this turn; `superseded` if a later turn was accepted meanwhile. */
  note(pair: Pair & { desktopId: DesktopId }, note: Note, options: WriteOptions = {}): Promise<Entry> {
    return this.#change(pair.desktopId, options, (entry) => {
      if (comparePairs(pair, entry) < 0) refuse('superseded', 'a later request for this desktop was accepted')
      return { ...entry, ...note }
    })
  }

  /** Resolves when every change of the desktop is on the disk that was to be synced later. */
  async synced(desktopId: DesktopId): Promise<void> {
    const last = this.#unsynced.get(desktopId)
    if (last === undefined) return
    await this.#writer.synced(last)
    if (this.#unsynced.get(desktopId) === last) this.#unsynced.delete(desktopId)
  }

  /** Raises a lost entry to what the host itself still reports of the desktop. */
  raise(desktopId: DesktopId, known: Pair & { operationId: string | null }, note: Note): Promise<Entry> {
    return this.#change(desktopId, {}, (entry) =>
      comparePairs(known, entry) > 0 ? { ...entry, ...known, ...note } : entry,
    )
  }

  /**
   * Removes the entries of desktops that were destroyed or have moved away, if that is longer ago than `beforeMs`. An entry
   * that a power cut brings back is removed the next time.
   */
  async prune(beforeMs: number): Promise<void> {
    const isOld = ({ destroyedAt, departedAt }: Entry) => {
      const goneAt = destroyedAt ?? departedAt
      return goneAt !== null && Date.parse(goneAt) <= beforeMs
    }
    for (const { desktopId } of this.all().filter(isOld)) {
      await this.#lock.run(desktopId, async () => {
        const entry = this.#entries.get(desktopId)
        if (!entry || !isOld(entry)) return
        await this.#append({ forget: desktopId }, { unsynced: true }, {})
        this.#entries.delete(desktopId)
      })
    }
  }

  /** Writes what waits, and closes the file. */
  async close(): Promise<void> {
    clearTimeout(this.#progressTimer)
    if (this.#log) this.#writeProgress()
    await this.#log?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #writer(): AppendLog {
    if (!this.#log) throw new Error('this journal was opened for reading')
    return this.#log
  }

  *#records(): Iterable<string> {
    yield JSON.stringify({ epoch: this.#epoch })
    for (const entry of this.#entries.values()) yield JSON.stringify({ entry })
  }

  #load(record: unknown, path: string): void {
    const parsed = recordSchema.safeParse(record)
    if (!parsed.success) {
      const cause = parsed.error
      throw new StartError(`the journal ${path} has a record that this agent cannot read; install a later release`, {
        cause,
      })
    }
    const { data } = parsed
    if ('epoch' in data) this.#epoch = data.epoch
    else if ('forget' in data) this.#entries.delete(data.forget)
    else this.#entries.set(data.entry.desktopId, data.entry)
  }

  #change(desktopId: DesktopId, options: WriteOptions, change: (entry: Entry) => Entry): Promise<Entry> {
    return this.#lock.run(desktopId, async () => {
      const entry = this.#entries.get(desktopId) ?? newEntry(desktopId)
      const changed = change(entry)
      if (isDeepStrictEqual(changed, entry)) return entry
      if (isDeepStrictEqual({ ...changed, ...progressOf(entry) }, entry)) this.#noteProgress(changed)
      else await this.#write(changed, options)
      return changed
    })
  }

  async #write(entry: Entry, { unsynced, syncLater, ...options }: WriteOptions): Promise<void> {
    const { desktopId } = entry
    const onWritten = () => {
      this.#entries.set(desktopId, entry)
      this.#progress.delete(desktopId)
      if (syncLater) this.#unsynced.set(desktopId, this.#writer.appended)
    }
    await this.#append({ entry }, { unsynced: unsynced || syncLater, onWritten }, options)
  }

  #noteProgress(entry: Entry): void {
    this.#entries.set(entry.desktopId, entry)
    this.#progress.add(entry.desktopId)
    this.#progressTimer ??= setTimeout(() => this.#writeProgress(), progressMs).unref()
  }

  /** A failure shows at the next change that somebody waits for. */
  #writeProgress(): void {
    this.#progressTimer = undefined
    for (const desktopId of this.#progress) {
      const entry = this.#entries.get(desktopId)
      if (entry) this.#writer.append(JSON.stringify({ entry }), { unsynced: true }).catch(() => undefined)
    }
    this.#progress.clear()
  }

  async #append(record: object, how: AppendOptions, { freesSpace }: WriteOptions): Promise<void> {
    const text = JSON.stringify(record)
    try {
      await this.#hit('journal.before-write')
      await this.#writer.append(text, how)
    } catch (error) {
      if (!isFull(error)) throw error
      if (!freesSpace) refuseFull()
      await this.#writer.append(text, { ...how, useReserve: true }).catch(diskFull)
    }
  }
}

const progressOf = ({ command, state, failure }: Entry): Note => ({ command, state, failure })
