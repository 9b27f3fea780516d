// The control plane's commands to agents. Each requests a result and is idempotent.
import { z } from 'zod'
import { guestActivity, idleCondition } from './activity.ts'
import { hostPublicKey, inventoryDigests, mostDesktops, observation, observations } from './agents.ts'
import { durationMs, listOf, said } from './bounds.ts'
import { clipboardCommands } from './clipboard.ts'
import { copyCommands } from './copies.ts'
import { desktopSize, desktopSpec, fence } from './fence.ts'
import { guestCommands } from './guest-calls.ts'
import { id } from './ids.ts'
import { imageRef, imageSource } from './images.ts'
import { inputAction, inputActionsMax, pictureSpec, region, screenSequence } from './input.ts'
import { metricsCommands } from './metrics.ts'
import { channelToken, handoff, moveAddress, moveKey, moveKind, moveTraits, relay } from './moves.ts'
import { resumedFrom, wakePath } from './operations.ts'
import { streamClaim } from './streams.ts'
import { upgradeCommands } from './upgrades.ts'

/**
 * What a wake may start from.
 * `memory: require` fails if no whole saved memory is found; `allow` uses one if there is one; `discard` gives it up.
 * `disk: require` fails if there is none; `make` makes one from the image.
 */
export const wakeSource = z.object({
  memory: z.enum(['require', 'allow', 'discard']),
  disk: z.enum(['require', 'make']),
})
export type WakeSource = z.infer<typeof wakeSource>

/** A command that an agent runs in a guest to its end. */
export interface ExecCommand {
  desktopId: string
  generation: number
  command: string | string[]
  cwd: string | null
  env: Record<string, string>
  stdin: string | null
  timeoutSecs: number
  /** A command that reaches its timeout is a result, with what it had printed; otherwise a refusal. */
  showsTimeout?: boolean | undefined
}

export interface ExecResult {
  exitCode: number | null
  signal: number | null
  stdout: string
  stderr: string
  stdoutTruncated: boolean
  stderrTruncated: boolean
  durationMs: number
  /** It was ended at its timeout. */
  timedOut?: true
}

/** The leader's decision on an inventory item. The agent obeys only while its journal still has `seen`. */
export const rejoinOrder = z.object({
  desktopId: id,
  seen: z.object({ generation: z.int(), turn: z.int() }),
  /**
   * keep: only remove what is used up. stop: another host has a higher generation. remove: the desktop was destroyed.
   * suspend: it runs without a record in the database; an operator decides.
   */
  order: z.enum(['keep', 'stop', 'remove', 'suspend']),
})
export type RejoinOrder = z.infer<typeof rejoinOrder>

const fenced = z.object({ fence })

/** The registered image of a disk. Without it, a folder of the host's own has its name. */
const image = imageRef.optional()

const side = z.int().min(1).max(65_535)
const sizeOf = z.object({ width: side, height: side })
const settle = z.object({ quietMs: durationMs, maxMs: durationMs })

/** A batch of input. `batchId` names it for `input.interrupt`. */
export const inputCommand = z.object({
  desktopId: id,
  generation: z.int(),
  batchId: id,
  actions: listOf(inputAction, inputActionsMax),
  /** The picture whose pixels the coordinates are; null for the screen itself. */
  space: sizeOf.nullable(),
  expectedScreen: sizeOf.nullable(),
  paceMs: durationMs,
  settle: settle.nullable(),
  /** The region of the picture at the end. Refused as `outside`, without an index, if it goes beyond the screen. */
  region: region.nullish(),
  /** Another client had the claim until now: screens that are open lose their input. */
  supersedes: z.boolean().optional(),
})
export type InputCommand = z.infer<typeof inputCommand>

/** The screen after a batch, or as it is now. */
const seenScreen = sizeOf.extend({
  sequence: screenSequence,
  pointer: z.object({ x: z.int(), y: z.int() }).nullable(),
  settled: z.boolean().nullable(),
  changed: z.boolean(),
  settleMs: z.int().min(0),
})
export type SeenScreen = z.infer<typeof seenScreen>

/** Why a host began nothing of a batch. The control plane has the sentences. */
export const inputRefusal = z.object({
  why: z.enum(['character', 'outside', 'screen_changed', 'too_long', 'no_clipboard', 'busy']),
  /** The action that prevents it. */
  index: z.int().min(0).max(inputActionsMax).nullable(),
  character: z.string().max(8).nullable(),
  screen: sizeOf.nullable(),
  takesMs: z.int().min(0).nullable(),
})
export type InputRefusal = z.infer<typeof inputRefusal>

export const inputResult = z.union([
  z.object({ refused: inputRefusal }),
  z.object({
    outcome: z.enum(['done', 'failed', 'interrupted']),
    performed: z.int().min(0).max(inputActionsMax),
    reason: said(300).nullable(),
    seen: seenScreen.nullable(),
  }),
])
export type InputResult = z.infer<typeof inputResult>

export const commands = {
  /** The overlay on the image is there. */
  'desktop.ensureDisk': {
    payload: fenced.extend({ spec: desktopSpec, disk: wakeSource.shape.disk, image }),
    result: z.object({ made: z.boolean() }),
  },
  /** The desktop runs in this generation, its guest answers, and its clock is right. */
  'desktop.ensureAwake': {
    payload: fenced.extend({
      spec: desktopSpec,
      source: wakeSource,
      image,
      /** The size that the disk gets before the desktop boots. An agent of release 0.1 ignores it. */
      nextDiskGiB: desktopSpec.shape.diskGiB.optional(),
    }),
    result: z.object({
      resumedFrom,
      /** Whether what its image calls ready has come true. */
      ready: z.boolean(),
      path: wakePath.optional(),
      size: desktopSize.optional(),
    }),
  },
  /** Memory and disk are saved, as they belong together, and nothing runs. */
  'desktop.ensureHibernated': {
    /** With a condition, a guest that runs and is not idle is left as it is, and the command is refused with `not_idle`. */
    payload: fenced.extend({ ifIdle: idleCondition.optional() }),
    result: z.object({ memoryBytes: z.int().min(0) }),
  },
  /**
   * The undo of a wake: whatever is there sleeps again. An unspent image is kept; a guest that has run is saved again; if that
   * is impossible, it is stopped, and the result shows it. Returns the state that is then true.
   */
  'desktop.ensureAsleep': {
    payload: fenced,
    result: z.object({
      state: z.enum(['absent', 'stopped', 'hibernated']),
      memoryLost: z.boolean(),
      size: desktopSize.optional(),
    }),
  },
  /** Nothing of the desktop is left on the host; the journal remembers that it was destroyed. */
  'desktop.ensureDestroyed': { payload: fenced, result: z.object({}) },
  /**
   * Nothing of the desktop is left on the host, because it goes on elsewhere. This turn is refused from then on; the desktop may
   * come again in a later one.
   */
  'desktop.ensureAbsent': { payload: fenced, result: z.object({}) },
  /** The wake has settled: the spent image may go. */
  'desktop.tidy': { payload: fenced, result: z.object({}) },
  'desktop.observe': {
    payload: z.object({ desktopId: id }),
    result: observation.extend({
      /** Commands and transfers of the desktop that are in flight. */
      calls: z.int().min(0),
      /** Only for a desktop that runs. */
      activity: guestActivity.optional(),
    }),
  },
  /** The items of buckets whose digest is not the known one, and the digests of all buckets. */
  'host.inventory': {
    payload: z.object({ known: inventoryDigests }),
    result: z.object({ items: observations, digests: inventoryDigests }),
  },
  'host.rejoin': {
    payload: z.object({ epoch: z.int().min(1), orders: listOf(rejoinOrder, mostDesktops) }),
    result: z.object({ items: observations }),
  },
  /** The warm copies of sleeping desktops are ended: all of them, whatever wakes meanwhile. */
  'host.dropWarmCopies': { payload: z.object({}), result: z.object({ dropped: z.int().min(0) }) },
  /** The host keeps a new key beside its present one, with which it links if that is refused. The same until it is used. */
  'key.renew': { payload: z.object({}), result: z.object({ publicKey: hostPublicKey }) },
  /** What is at the source of an image. Nothing but its manifest is read. */
  'image.inspect': {
    payload: z.object({ source: imageSource }),
    result: imageRef.pick({ name: true, version: true, digest: true, bytes: true }),
  },
  /**
   * The host begins to fetch the image, unless it has it or fetches it already. Its facts show how far it is. If it has the
   * image, it makes a template for desktops of that size when it can.
   */
  'image.fetch': {
    payload: imageRef.extend({ template: desktopSpec.omit({ imageVersion: true }).optional() }),
    result: z.object({}),
  },
  /** The host has the image; it fetches the image if it lacks it. Its progress reports name the operation. */
  'image.ensure': { payload: z.object({ image: imageRef, desktopId: id, operationId: id }), result: z.object({}) },
  /** The desktop's screen, as RFB, runs over the channel until one side ends it. */
  'stream.open': {
    /** With `control`, screens that were opened with it before lose their input. */
    payload: z.object({ desktopId: id, generation: z.int(), channel: channelToken, claim: streamClaim }),
    result: z.object({}),
  },
  /** Keys and pointer, once: a repeated call does it again. A refused call does nothing. */
  'input.perform': { payload: inputCommand, result: inputResult },
  /** The batch stops before its next event, and releases what it holds. Does nothing if there is none. */
  'input.interrupt': { payload: z.object({ desktopId: id, batchId: id }), result: z.object({}) },
  /** The screen, as it is now or as soon as it is settled or has changed; its picture comes over the channel. */
  'screen.look': {
    payload: z.object({
      desktopId: id,
      generation: z.int(),
      wait: z.enum(['settled', 'changed']).nullable(),
      after: screenSequence.nullable(),
      settle,
      picture: z.object({ spec: pictureSpec, channel: channelToken }).nullable(),
      /** Pictures of the same share take turns with those of others. */
      share: said(64),
    }),
    result: seenScreen,
  },
  /** What another host must have to take the desktop. */
  'move.traits': { payload: z.object({ desktopId: id }), result: moveTraits },
  /**
   * Whether this host can take it: null, or a sentence with the reason why not. `mayRelay`: the move may pass through the
   * control plane, so the host needs no address.
   */
  'move.check': {
    payload: z.object({ spec: desktopSpec, traits: moveTraits, image, mayRelay: z.boolean() }),
    result: z.object({
      misfit: said(1_000).nullable(),
      /** It lacks the registered image, and can take the desktop once it has fetched it. */
      fetches: z.boolean().optional(),
    }),
  },
  /** Old host: the desktop is held for the move, and nothing has changed for its guest. */
  'move.begin': { payload: fenced.extend({ kind: moveKind }), result: z.object({ handoff }) },
  /**
   * New host: it is ready to receive, and listens for a host that has the key. The address is null if it listens nowhere; the
   * move can then only be relayed. With `relay`, it has dialled the channels back, and listens there, too.
   */
  'move.prepare': {
    payload: fenced.extend({
      kind: moveKind,
      spec: desktopSpec,
      imageDigest: said(64),
      key: moveKey,
      handoff,
      relay: relay.optional(),
    }),
    result: z.object({ handoff, address: moveAddress.nullable() }),
  },
  /**
   * Old host: everything was sent, to the address, or over a relay if the address is null. From then on a live desktop is
   * paused on both hosts.
   */
  'move.send': {
    payload: fenced.extend({ key: moveKey, address: moveAddress.nullable(), handoff, relay: relay.optional() }),
    result: z.object({ handoff }),
  },
  /** New host: everything is whole and on its disk, and nothing runs. */
  'move.arrive': { payload: fenced.extend({ handoff }), result: z.object({ handoff }) },
  /** New host, after the decision, in its turn: the desktop is its own. Returns the state that is then true. */
  'move.settle': { payload: fenced, result: z.object({ state: z.enum(['awake', 'hibernated', 'stopped']) }) },
  /** Old host, after the decision, in its turn: nothing of the desktop is left here. */
  'move.release': { payload: fenced.extend({ handoff: handoff.nullable() }), result: z.object({}) },
  /** New host, the undo of `prepare`: nothing of the desktop is left here. */
  'move.abandon': { payload: fenced, result: z.object({}) },
  /** Old host, the undo of `begin` and `send`: the desktop goes on here as it was. Returns the state that is then true. */
  'move.keep': { payload: fenced, result: z.object({ state: z.enum(['awake', 'hibernated', 'stopped']) }) },
  ...copyCommands,
  ...guestCommands,
  ...clipboardCommands,
  ...metricsCommands,
  ...upgradeCommands,
} as const

export type CommandName = keyof typeof commands
export type CommandPayload<N extends CommandName> = z.infer<(typeof commands)[N]['payload']>
export type CommandResult<N extends CommandName> = z.infer<(typeof commands)[N]['result']>
