// The last command that this host has accepted for each desktop, on disk before any work begins. So no late, lost or
// repeated command of a lower turn changes anything, even after the agent was killed. Knows nothing of hypervisors.
import { readFileSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { type DesktopId, desktopSpec, type Fence, id, isId, refuse, resumedFrom } from '@dormouse/contract'
import { z } from 'zod'
import { privateFolder, readIfThere, writeDurably } from '../mechanics/durable-file.ts'
import { diskFull, isFull, refuseFull } from '../mechanics/full-disk.ts'
import { KeyedLock } from '../mechanics/locks.ts'
import { Reserve } from '../mechanics/reserve.ts'

const entrySchema = z.object({
  desktopId: id,
  /** The highest pair accepted; generation counts first. */
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id.nullable(),
  /** The last command accepted in this turn, and its outcome. */
  command: z.string().nullable(),
  state: z.enum(['doing', 'done', 'failed']),
  failure: z.string().nullable(),
  spec: desktopSpec.nullable(),
  /** `making` may be half a disk, `fresh` was never booted; neither holds its owner's work. */
  disk: z.enum(['none', 'making', 'fresh', 'used']),
  /** In this turn: the disk was made; what the guest came from, written before its first vCPU ran; an undo was requested. */
  diskMade: z.boolean(),
  wokeFrom: resumedFrom.nullable(),
  takenBack: z.boolean(),
  /** The image's command for readiness has succeeded since the guest was booted. */
  ready: z.boolean().default(false),
  /** In this turn a saved memory was spent, and its guest could not be saved again. */
  memoryLost: z.boolean(),
  /** Whether a domain should be running; reported only where the hypervisor does not answer. */
  running: z.boolean(),
  /** Memory images that must never be restored again, by file name. */
  spent: z.array(z.string()),
  destroyedAt: z.iso.datetime().nullable(),
})
export type Entry = z.infer<typeof entrySchema>

/** The part of an entry that work may change; only accepting a command changes the fence. */
export type Note = Partial<Omit<Entry, 'desktopId' | 'generation' | 'turn' | 'operationId'>>

export interface WriteOptions {
  /** The work frees space or undoes something, so on a full disk it may use the reserve. */
  freesSpace?: boolean
}

type Pair = { generation: number; turn: number }
/** Negative where `a` is older than `b`. */
export const comparePairs = (a: Pair, b: Pair): number => a.generation - b.generation || a.turn - b.turn

const newEntry = (desktopId: DesktopId): Entry => ({
  desktopId,
  generation: 0,
  turn: 0,
  operationId: null,
  command: null,
  state: 'done',
  failure: null,
  spec: null,
  disk: 'none',
  diskMade: false,
  wokeFrom: null,
  takenBack: false,
  ready: false,
  memoryLost: false,
  running: false,
  spent: [],
  destroyedAt: null,
})

/** How many entries are read before the event loop runs other work. */
const filesAtOnce = 250

const ofThisTurn = { diskMade: false, wokeFrom: null, takenBack: false, memoryLost: false, failure: null } as const

export class Journal {
  readonly #folder: string
  readonly #epochFile: string
  readonly #beforeWrite: () => Promise<void>
  /** For work that frees space on a full disk. */
  readonly reserve: Reserve
  readonly #entries = new Map<DesktopId, Entry>()
  readonly #lock = new KeyedLock()
  #epoch = 0

  private constructor(folder: string, reserve: Reserve, beforeWrite: () => Promise<void>) {
    this.reserve = reserve
    this.#folder = join(folder, 'journal')
    this.#epochFile = join(folder, 'epoch.json')
    this.#beforeWrite = beforeWrite
  }

  /** Reads all entries. One that cannot be read stops the agent, because a guess could corrupt a disk. */
  static async open(folder: string, beforeWrite: () => Promise<void> = async () => undefined): Promise<Journal> {
    const journal = new Journal(folder, await Reserve.open(join(folder, 'reserve')), beforeWrite)
    await privateFolder(journal.#folder)
    for (const [at, name] of (await readdir(journal.#folder)).entries()) {
      journal.#load(name)
      if (at % filesAtOnce === 0) await setImmediate()
    }
    const epoch = await readIfThere(journal.#epochFile)
    if (epoch) journal.#epoch = z.object({ epoch: z.int().min(0) }).parse(JSON.parse(epoch)).epoch
    return journal
  }

  /** Synchronous, because that reads tens of thousands of tombstones in a second; asynchronous reads take many. */
  #load(name: string): void {
    const desktopId = name.replace(/\.json$/, '')
    if (!isId(desktopId)) return
    const path = join(this.#folder, name)
    try {
      this.#entries.set(desktopId, entrySchema.parse(JSON.parse(readFileSync(path, 'utf8'))))
    } catch (cause) {
      throw new Error(`the journal ${path} cannot be read; restore it, or move it out of the folder`, { cause })
    }
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
      await this.#write(this.#epochFile, { epoch }, { freesSpace: true })
      this.#epoch = epoch
    })
  }

  /** Records that work on this command begins. While the reserve is incomplete, nothing new begins. */
  async accept(fence: Fence, command: string, note: Note = {}, options: WriteOptions = {}): Promise<Entry> {
    if (!options.freesSpace && !(await this.reserve.refill())) refuseFull()
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

  /** Records a change in this turn; `superseded` where a later turn was accepted meanwhile. */
  note(pair: Pair & { desktopId: DesktopId }, note: Note, options: WriteOptions = {}): Promise<Entry> {
    return this.#change(pair.desktopId, options, (entry) => {
      if (comparePairs(pair, entry) < 0) refuse('superseded', 'a later request for this desktop was accepted')
      return { ...entry, ...note }
    })
  }

  /** Raises a lost entry to what the host itself still reports of the desktop. */
  raise(desktopId: DesktopId, known: Pair & { operationId: string | null }, note: Note): Promise<Entry> {
    return this.#change(desktopId, {}, (entry) =>
      comparePairs(known, entry) > 0 ? { ...entry, ...known, ...note } : entry,
    )
  }

  /** Removes tombstones older than `beforeMs`. One that a power cut brings back is removed the next time. */
  async prune(beforeMs: number): Promise<void> {
    const isOld = ({ destroyedAt }: Entry) => destroyedAt !== null && Date.parse(destroyedAt) <= beforeMs
    for (const { desktopId } of this.all().filter(isOld)) {
      await this.#lock.run(desktopId, async () => {
        const entry = this.#entries.get(desktopId)
        if (!entry || !isOld(entry)) return
        await rm(this.#path(desktopId), { force: true })
        this.#entries.delete(desktopId)
      })
    }
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.json`)
  }

  #change(desktopId: DesktopId, options: WriteOptions, change: (entry: Entry) => Entry): Promise<Entry> {
    return this.#lock.run(desktopId, async () => {
      const entry = this.#entries.get(desktopId) ?? newEntry(desktopId)
      const changed = change(entry)
      if (changed === entry) return entry
      await this.#write(this.#path(desktopId), changed, options)
      this.#entries.set(desktopId, changed)
      return changed
    })
  }

  async #write(path: string, value: object, { freesSpace }: WriteOptions): Promise<void> {
    const text = JSON.stringify(value)
    try {
      await this.#beforeWrite()
      await writeDurably(path, text)
    } catch (error) {
      if (!isFull(error)) throw error
      if (!freesSpace) refuseFull()
      await this.reserve.write(path, text).catch(diskFull)
    }
  }
}
