// What the journal keeps of one desktop.
import { type DesktopId, desktopSpec, id, moveState, resumedFrom, wakePath } from '@dormouse/contract'
import { z } from 'zod'

const stored = z.object({
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
  /** `template` from before its disk becomes a copy of a template's until its guest has an identity of its own. */
  identity: z.enum(['own', 'template']).default('own'),
  /** False while a desktop that began with a template may still have no network. */
  furnished: z.boolean().default(true),
  /** In this turn: the disk was made; what the guest came from, written before its first vCPU ran; an undo was requested. */
  diskMade: z.boolean(),
  wokeFrom: resumedFrom.nullable(),
  /** In this turn: how the guest came to run. */
  wokeBy: wakePath.nullable().default(null),
  takenBack: z.boolean(),
  /** The image's command for readiness has succeeded since the guest was booted. */
  ready: z.boolean().default(false),
  /** In this turn a saved memory was spent, and its guest could not be saved again. */
  memoryLost: z.boolean(),
  /** Whether a domain should be running; reported only if the hypervisor does not answer. */
  running: z.boolean(),
  /** Memory images that must never be restored again, by file name. */
  spent: z.array(z.string()),
  destroyedAt: z.iso.datetime().nullable(),
  /** While it moves to or from this host. Then nothing but a command of the move, or a destroy, changes it. */
  move: moveState.nullable().default(null),
  /** In this turn its memory was saved without a command; why. */
  sleptBecause: z.string().nullable().default(null),
  /** When it moved away, or its move to this host was undone: nothing of it is here. It may come again. */
  departedAt: z.iso.datetime().nullable().default(null),
})
export type Entry = z.infer<typeof stored>

/**
 * Only a disk that was never booted can be a template's. An agent of an earlier release could leave `template` in the entry of
 * a desktop that had gone to another host; if the desktop came back, its disk is its owner's.
 */
export const entrySchema = stored.transform(
  (entry): Entry => (entry.identity === 'template' && entry.disk !== 'fresh' ? { ...entry, identity: 'own' } : entry),
)

/** The part of an entry that work may change; only accepting a command changes the fence. */
export type Note = Partial<Omit<Entry, 'desktopId' | 'generation' | 'turn' | 'operationId'>>

export type Pair = Pick<Entry, 'generation' | 'turn'>
/** Negative if `a` is older than `b`. */
export const comparePairs = (a: Pair, b: Pair): number => a.generation - b.generation || a.turn - b.turn

export const newEntry = (desktopId: DesktopId): Entry => ({
  desktopId,
  generation: 0,
  turn: 0,
  operationId: null,
  command: null,
  state: 'done',
  failure: null,
  spec: null,
  disk: 'none',
  identity: 'own',
  furnished: true,
  diskMade: false,
  wokeFrom: null,
  wokeBy: null,
  takenBack: false,
  ready: false,
  memoryLost: false,
  running: false,
  spent: [],
  destroyedAt: null,
  move: null,
  sleptBecause: null,
  departedAt: null,
})

/**
 * The fields of an entry if nothing of the desktop is on the host: after a destroy, a move away, and before one to this host.
 */
export const nothingHere: Note = {
  move: null,
  running: false,
  spent: [],
  disk: 'none',
  identity: 'own',
  furnished: true,
  ready: false,
  spec: null,
}

/** What an entry loses when a new turn begins. */
export const ofThisTurn = {
  diskMade: false,
  wokeFrom: null,
  wokeBy: null,
  takenBack: false,
  memoryLost: false,
  sleptBecause: null,
  failure: null,
} as const satisfies Note
