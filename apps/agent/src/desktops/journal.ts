// What this host has obeyed, per desktop, on disk before anything is done: so that no late, lost or repeated command
// of a lower turn changes anything, also after the agent was killed. Knows nothing of hypervisors.
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
  /** The highest pair obeyed; generation counts first. */
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id.nullable(),
  /** The last command accepted in this turn, and how it went. */
  command: z.string().nullable(),
  state: z.enum(['doing', 'done', 'failed']),
  failure: z.string().nullable(),
  spec: desktopSpec.nullable(),
  /** `making` may be half a disk, `fresh` was never booted; both hold nobody's work. */
  disk: z.enum(['none', 'making', 'fresh', 'used']),
  /** In this turn: the disk was made; what the guest came from, written before its first vCPU ran; an undo was asked. */
  diskMade: z.boolean(),
  wokeFrom: resumedFrom.nullable(),
  takenBack: z.boolean(),
  /** What the image calls ready has come true since the guest was booted. */
  ready: z.boolean().default(false),
  /** In this turn a saved memory was spent, and its guest could not be saved anew. */
  memoryLost: z.boolean(),
  /** Whether a domain is believed to run: told only where the hypervisor cannot be asked. */
  running: z.boolean(),
  /** Memory images that must never be restored again, by file name. */
  spent: z.array(z.string()),
  destroyedAt: z.iso.datetime().nullable(),
})
export type Entry = z.infer<typeof entrySchema>

/** The part of an entry that work may change; the fence is changed by accepting a command alone. */
export type Note = Partial<Omit<Entry, 'desktopId' | 'generation' | 'turn' | 'operationId'>>

/** How a write comes about: what makes room, or takes back, may use the reserve of a full disk. */
export interface Manner {
  makesRoom?: boolean
}
const makingRoom: Manner = { makesRoom: true }

type Pair = { generation: number; turn: number }
/** Below zero where `a` is older than `b`. */
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

/** How many entries are read before whatever else waits has its turn. */
const filesAtOnce = 250

const ofThisTurn = { diskMade: false, wokeFrom: null, takenBack: false, memoryLost: false, failure: null } as const

export class Journal {
  readonly #folder: string
  readonly #epochFile: string
  readonly #beforeWrite: () => Promise<void>
  /** For what makes room on a full disk. */
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

  /** Reads all that was written before; a file that cannot be read stops the agent, since guessing could tear a disk. */
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

  /** Synchronous: tens of thousands of tombstones are read so in a second, and one by one in many. */
  #load(name: string): void {
    const desktopId = name.replace(/\.json$/, '')
    if (!isId(desktopId)) return
    const path = join(this.#folder, name)
    try {
      this.#entries.set(desktopId, entrySchema.parse(JSON.parse(readFileSync(path, 'utf8'))))
    } catch (cause) {
      throw new Error(`the journal ${path} cannot be read; restore it, or move it away`, { cause })
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

  /** Refuses a lower epoch than any seen; a higher one is on disk when this returns. */
  async raiseEpoch(epoch: number): Promise<void> {
    if (epoch < this.#epoch) refuse('stale_epoch', `epoch ${epoch} is over; this host has heard epoch ${this.#epoch}`)
    if (epoch === this.#epoch) return
    await this.#lock.run('epoch', async () => {
      if (epoch <= this.#epoch) return
      await this.#write(this.#epochFile, { epoch }, makingRoom)
      this.#epoch = epoch
    })
  }

  /** Writes down that this command is being obeyed now. While the reserve is in use, nothing new begins. */
  async accept(fence: Fence, command: string, note: Note = {}, how: Manner = {}): Promise<Entry> {
    if (!how.makesRoom && !(await this.reserve.refill())) refuseFull()
    return this.#change(fence.desktopId, how, (entry) => ({
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

  /** Notes what has come true in this turn; `superseded` where a later turn was accepted meanwhile. */
  note(pair: Pair & { desktopId: DesktopId }, note: Note, how: Manner = {}): Promise<Entry> {
    return this.#change(pair.desktopId, how, (entry) => {
      if (comparePairs(pair, entry) < 0) refuse('superseded', 'a later request for this desktop was accepted')
      return { ...entry, ...note }
    })
  }

  /** Raises a lost journal to what the host itself still says of the desktop. */
  raise(desktopId: DesktopId, known: Pair & { operationId: string | null }, note: Note): Promise<Entry> {
    return this.#change(desktopId, {}, (entry) =>
      comparePairs(known, entry) > 0 ? { ...entry, ...known, ...note } : entry,
    )
  }

  /** Forgets tombstones older than `beforeMs`. One that a power cut brings back is forgotten again. */
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

  #change(desktopId: DesktopId, how: Manner, change: (entry: Entry) => Entry): Promise<Entry> {
    return this.#lock.run(desktopId, async () => {
      const entry = this.#entries.get(desktopId) ?? newEntry(desktopId)
      const changed = change(entry)
      if (changed === entry) return entry
      await this.#write(this.#path(desktopId), changed, how)
      this.#entries.set(desktopId, changed)
      return changed
    })
  }

  async #write(path: string, value: object, { makesRoom }: Manner): Promise<void> {
    const text = JSON.stringify(value)
    try {
      await this.#beforeWrite()
      await writeDurably(path, text)
    } catch (error) {
      if (!isFull(error)) throw error
      if (!makesRoom) refuseFull()
      await this.reserve.write(path, text).catch(diskFull)
    }
  }
}
