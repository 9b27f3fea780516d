// What operations on desktops store: the desktop as it was when the operation was accepted, and what its steps have found.
import {
  commands,
  type DesktopState,
  desktopSize,
  desktopSpec,
  desktopState,
  id,
  idleCondition,
  imageRef,
  moveMode,
  observation,
  resumedFrom,
  tier,
  wakePath,
} from '@dormouse/contract'
import { z } from 'zod'
import { findings } from '../../operations/definition.ts'
import type { OperationRow } from '../../operations/store.ts'

/** Release 0.1 stores no tier. */
const accepted = z.object({ from: desktopState, hostId: id.nullable(), spec: desktopSpec, tier: tier.optional() })
const onItsHost = accepted.extend({ hostId: id })

const tiered = desktopSpec.pick({ vcpus: true, memoryMiB: true }).extend({ tier })

export const wakeInput = accepted.extend({
  /** What waits for the desktop's next boot. A replica of release 0.1 ignores it, and boots with `spec`. */
  sizes: z.object({ next: tiered.nullable(), nextDiskGiB: z.int().nullable() }).optional(),
  /** Whether the caller gives up the saved memory. */
  discardMemory: z.boolean(),
  /** The host that an operator chose for the first wake. */
  onHost: id.optional(),
  /** Set if a move went first for this wake: it then wakes on the host that the desktop has. */
  staysThere: z.boolean().optional(),
})
export type WakeInput = z.infer<typeof wakeInput>

export const hibernateInput = onItsHost.extend({
  /** The condition of a hibernation by idle. The host checks it once more. */
  ifIdle: idleCondition.optional(),
})
export type HibernateInput = z.infer<typeof hibernateInput>

export const moveInput = onItsHost.extend({
  /** Null for the best host. */
  to: id.nullable(),
  mode: moveMode,
  /** Whether it may use a host that is reachable only through a relay, which takes longer. */
  mayRelay: z.boolean(),
  /** The wake that waits behind the move because the desktop's host cannot take it. */
  forWake: id.optional(),
  /** What it needs on the new host, if that wake is to give it another size. */
  wakesAs: desktopSize.optional(),
})
export type MoveInput = z.infer<typeof moveInput>

/** The copy is stored with the operation: it may be forgotten meanwhile, and its snapshot is still there for a while. */
export const restoreInput = accepted.extend({
  copyId: id,
  takenAt: z.string(),
  vault: z.string(),
  snapshot: z.string(),
  imageDigest: z.string(),
  madeFrom: z.string().nullable(),
  handoff: z.string(),
  /** Whether its memory was not used since. */
  memory: z.boolean(),
})
export type RestoreInput = z.infer<typeof restoreInput>

export const destroyInput = accepted
export type DestroyInput = z.infer<typeof destroyInput>

/** The host's answer to an undo, or `deferred`. */
const asleep = z.union([commands['desktop.ensureAsleep'].result, z.literal('deferred')])
export type Asleep = z.infer<typeof asleep>

export const wakeFindings = findings.extend({
  hostId: z.string().optional(),
  image: imageRef.optional(),
  /** The hosts that failed, in order, and why the last one was left. */
  tried: z.array(z.string()).optional(),
  left: z.string().optional(),
  resumedFrom: resumedFrom.optional(),
  /** Absent if the host cannot determine it. */
  ready: z.boolean().optional(),
  path: wakePath.optional(),
  size: desktopSize.optional(),
  asleep: asleep.optional(),
})
export type WakeFindings = z.infer<typeof wakeFindings>

export const hibernateFindings = findings.extend({
  memoryBytes: z.int().optional(),
  /** What the host has of the desktop after a failed save. */
  seen: z.union([observation.pick({ domain: true, memory: true }), z.enum(['out of reach', 'nothing'])]).optional(),
})
export type HibernateFindings = z.infer<typeof hibernateFindings>

export const restoreFindings = findings.extend({
  hostId: z.string().optional(),
  /** Set if the desktop was not on this host before. */
  isNew: z.boolean().optional(),
  restored: commands['copy.restore'].result.shape.state.optional(),
})
export type RestoreFindings = z.infer<typeof restoreFindings>

const state = z.enum(['awake', 'hibernated', 'stopped'])
const whetherDone = z.enum(['done', 'deferred'])

/** The hosts' handoffs are stored, so that a new leader can continue; the move's key never is. */
export const moveFindings = findings.extend({
  to: z.string().optional(),
  kind: z.enum(['live', 'cold']).optional(),
  imageDigest: z.string().optional(),
  /** The host that fetches the image in order to take the desktop. */
  fetchesOn: z.string().optional(),
  begun: z.string().optional(),
  sent: z.string().optional(),
  arrived: z.string().optional(),
  /** The state that the new host reports. */
  settled: state.or(z.literal('deferred')).optional(),
  released: whetherDone.optional(),
  abandoned: whetherDone.optional(),
  /** The state that the old host reports after an undo. */
  kept: state.or(z.literal('deferred')).optional(),
  /** Why the live move was given up. */
  gaveUpLive: z.string().optional(),
  /** The old host has saved the desktop's memory for this move. */
  saved: z.boolean().optional(),
  /** What the new host has of the desktop after a failed wake. */
  asleep: asleep.optional(),
})
export type MoveFindings = z.infer<typeof moveFindings>

export const destroyFindings = findings.extend({ cleanup: whetherDone.optional() })
export type DestroyFindings = z.infer<typeof destroyFindings>

/** The desktop's state when the operation was accepted. Undefined once retention has emptied the input of an old operation. */
export const stateBefore = ({ input }: OperationRow): DesktopState | undefined =>
  accepted.pick({ from: true }).safeParse(input).data?.from

/** Whether the caller gave up the saved memory. False once retention has emptied the input of an old operation. */
export const discardsMemory = ({ input }: OperationRow): boolean =>
  wakeInput.pick({ discardMemory: true }).safeParse(input).data?.discardMemory ?? false
