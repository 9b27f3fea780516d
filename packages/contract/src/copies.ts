// Copies of sleeping desktops in vaults, off their hosts: what the control plane asks of an agent. A vault is to a desktop like
// another host in a cold move, so what travels is the same.
import { z } from 'zod'
import { listOf } from './bounds.ts'
import { time } from './desktops.ts'
import { desktopSpec, fence } from './fence.ts'
import { id } from './ids.ts'
import { selector } from './labels.ts'
import { handoff, moveTraits } from './moves.ts'
import { vaultName } from './vaults.ts'

/** A snapshot, as the vault's program names it. */
export const snapshotId = z.string().regex(/^[0-9a-f]{64}$/)

export const copyKind = z.enum(['memory', 'disk'])
export type CopyKind = z.infer<typeof copyKind>

/** Copies that one command may remove. */
export const forgottenMax = 1_000

export const madeCopy = z.object({
  snapshot: snapshotId,
  /** `memory`: disk and saved memory, as they belong together. */
  kind: copyKind,
  /** The size of its files. */
  sizeBytes: z.int().min(0),
  /** What the vault did not have yet, before compression. */
  addedBytes: z.int().min(0),
  /** What a host must have to take it. */
  traits: moveTraits,
  /** For the host that restores it. */
  handoff,
})
export type MadeCopy = z.infer<typeof madeCopy>

export const copyCommands = {
  /** Copies a desktop that sleeps in this turn. It ends with `superseded` if another turn begins. */
  'copy.make': {
    payload: z.object({
      desktopId: id,
      generation: z.int().min(0),
      turn: z.int().min(0),
      copyId: id,
      vault: vaultName,
      /** The desktop's copy before, in the same vault. */
      parent: snapshotId.nullable(),
    }),
    result: madeCopy,
  },
  /** The desktop sleeps on this host as it was copied, whatever the host has of it. */
  'copy.restore': {
    payload: z.object({
      fence,
      vault: vaultName,
      snapshot: snapshotId,
      spec: desktopSpec,
      imageDigest: z.string().max(64),
      handoff,
      /** False to boot from its disk: its memory was used since, or it is another desktop's. */
      memory: z.boolean(),
    }),
    result: z.object({ state: z.enum(['hibernated', 'stopped']) }),
  },
  'copy.forget': {
    payload: z.object({ vault: vaultName, snapshots: listOf(snapshotId, forgottenMax) }),
    result: z.object({}),
  },
  /** Removes data that no copy has, and reads a part of the rest, such as `3/30`. */
  'vault.keep': {
    payload: z.object({ vault: vaultName, part: z.string().regex(/^\d{1,4}\/\d{1,4}$/) }),
    result: z.object({}),
  },
} as const

// What customers see.

const exampleId = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b82'

export const copyJson = z
  .object({
    id,
    kind: copyKind.describe(
      '`memory`: it can be restored with its memory, until that memory is woken. `disk`: its disk only',
    ),
    taken_at: time,
    size_bytes: z.int(),
    vault: z.string(),
  })
  .meta({ id: 'Copy' })
export type CopyJson = z.infer<typeof copyJson>

export const copiesJson = z.object({ copies: z.array(copyJson) }).meta({
  id: 'Copies',
  examples: [
    {
      copies: [
        {
          id: exampleId,
          kind: 'memory',
          taken_at: '2026-01-01T12:02:07.512Z',
          size_bytes: 1_288_490_188,
          vault: 'main',
        },
      ],
    },
  ],
})

const kept = z.int().min(0).max(1_000)
export const copiesKept = z.strictObject({
  last: kept.default(3).describe('The newest so many'),
  daily: kept.default(7).describe('The newest of each of so many days'),
  weekly: kept.default(4).describe('The newest of each of so many weeks'),
})
export type CopiesKept = z.infer<typeof copiesKept>

export const copyWhen = z.enum(['every-sleep', 'off'])
export const copyRecover = z.enum(['manual', 'automatic'])

export const copyPolicyName = z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, {
  error: 'must be 1 to 63 lower-case letters, digits or `-`, and begin and end with a letter or digit',
})
/** For each organisation. */
export const copyPoliciesMax = 32

export const copyPolicyBody = z
  .strictObject({
    select: selector.optional().describe('Of the desktops that it is for, such as `team=qa`; without it all'),
    when: copyWhen.default('every-sleep').describe('`every-sleep`: each time that a desktop sleeps. `off`: never'),
    keep: copiesKept.prefault({}).describe('Which copies of a desktop stay'),
    recover: copyRecover
      .default('manual')
      .describe('`automatic`: a wake of a desktop whose host was lost restores its newest copy'),
  })
  .meta({ id: 'CopyPolicyBody', examples: [{ select: 'team=qa', when: 'every-sleep', keep: { last: 3 } }] })
export type CopyPolicyBody = z.input<typeof copyPolicyBody>

export const copyPolicyJson = z
  .object({
    name: z.string(),
    select: z.string().nullable(),
    when: copyWhen,
    keep: copiesKept,
    recover: copyRecover,
  })
  .meta({
    id: 'CopyPolicy',
    examples: [
      { name: 'qa', select: 'team=qa', when: 'every-sleep', keep: { last: 3, daily: 7, weekly: 4 }, recover: 'manual' },
    ],
  })
export type CopyPolicyJson = z.infer<typeof copyPolicyJson>
export const copyPoliciesJson = z.object({ policies: z.array(copyPolicyJson) }).meta({ id: 'CopyPolicies' })
