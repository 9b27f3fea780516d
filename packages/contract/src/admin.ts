// Bodies of operators' routes: organisations, keys, hosts, the audit log.
import { z } from 'zod'
import { time } from './desktops.ts'
import { id } from './ids.ts'
import { moveMode } from './moves.ts'
import { keyLimits } from './rights.ts'

const name = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .regex(/^[^\p{C}]*$/u, 'must be printable')

export const createOrgBody = z.object({ name })
export type CreateOrgBody = z.input<typeof createOrgBody>
export const orgJson = z
  .object({
    id,
    name: z.string(),
    max_desktops: z.int().nullable().describe('How many desktops it may have; null for the default'),
    suspended_at: time.nullable().describe('Since when nothing of it wakes; null where it is not suspended'),
    created_at: time,
  })
  .meta({ id: 'Organisation' })
export type OrgJson = z.infer<typeof orgJson>

export const orgsJson = z.object({
  orgs: z.array(orgJson),
  default_max_desktops: z.int().describe('The default limit, for organisations whose `max_desktops` is null'),
})
export type OrgsJson = z.infer<typeof orgsJson>

/** Null removes the limit: the default applies. */
export const changeOrgBody = z.strictObject({ max_desktops: z.int().min(0).max(1_000_000_000).nullable() })
export type ChangeOrgBody = z.infer<typeof changeOrgBody>

export const createKeyBody = z.object({ org_id: id, name: name.nullish() })
export type CreateKeyBody = z.input<typeof createKeyBody>
export const keyJson = z
  .object({
    id,
    org_id: id,
    name: z.string(),
    ...keyLimits,
    created_at: time,
    last_used_at: time.nullable(),
    revoked_at: time.nullable(),
  })
  .meta({ id: 'ApiKey' })
export type KeyJson = z.infer<typeof keyJson>
/** The only response that contains the key itself. */
export const createdKeyJson = z.object({ ...keyJson.shape, api_key: z.string() }).meta({ id: 'CreatedApiKey' })
export type CreatedKeyJson = z.infer<typeof createdKeyJson>

/** `metrics` reads the metrics of the control plane and nothing else. */
const operatorKeyRole = z.enum(['operator', 'metrics'])
const validSecs = z.int().min(60).max(315_360_000)
export const createOperatorKeyBody = z.object({
  name,
  role: operatorKeyRole.optional().describe('`operator` by default; `metrics` reads metrics and nothing else'),
  valid_secs: validSecs.optional().describe('It expires so many seconds from now; by default never'),
})
export type CreateOperatorKeyBody = z.input<typeof createOperatorKeyBody>
export const changeOperatorKeyBody = z
  .strictObject({
    name: name.optional(),
    valid_secs: validSecs.nullable().optional().describe('It expires so many seconds from now; null: never'),
  })
  .refine((given) => Object.keys(given).length > 0, 'must have name or valid_secs')
export type ChangeOperatorKeyBody = z.input<typeof changeOperatorKeyBody>
export const operatorKeyJson = z
  .object({
    id,
    name: z.string(),
    role: operatorKeyRole,
    created_at: time,
    expires_at: time.nullable(),
    last_used_at: time.nullable(),
    revoked_at: time.nullable(),
  })
  .meta({ id: 'OperatorKey' })
export type OperatorKeyJson = z.infer<typeof operatorKeyJson>
/** The only response that contains the key itself. */
export const createdOperatorKeyJson = z
  .object({ ...operatorKeyJson.shape, operator_key: z.string() })
  .meta({ id: 'CreatedOperatorKey' })
export type CreatedOperatorKeyJson = z.infer<typeof createdOperatorKeyJson>

export const createInviteBody = z.object({ name: name.nullish(), valid_secs: z.int().min(60).max(604_800).nullish() })
export type CreateInviteBody = z.input<typeof createInviteBody>
export const inviteJson = z.object({ id, token: z.string(), expires_at: time }).meta({ id: 'HostInvite' })
export type InviteJson = z.infer<typeof inviteJson>
/** An invitation without its token, which is shown only once. */
export const listedInviteJson = z
  .object({
    id,
    name: z.string().nullable(),
    created_at: time,
    expires_at: time.describe('A revoked one expires at once'),
    used_at: time.nullable(),
    host_id: id.nullable().describe('The host that was enrolled with it'),
  })
  .meta({ id: 'ListedHostInvite' })
export type ListedInviteJson = z.infer<typeof listedInviteJson>

export const hostJson = z
  .object({
    id,
    name: z.string(),
    state: z.enum(['active', 'unreachable', 'lost', 'removed']),
    linked: z.boolean().describe('Whether the responding replica has a link to it'),
    version: z.string().nullable().describe('The release of its agent'),
    commit: z.string().nullable().describe('What its agent was built from'),
    clock_offset_secs: z.number().nullable().describe('By how much its clock is behind a replica’s; below 0: ahead'),
    upgradable: z.boolean().describe('Whether `dormouse admin upgrade hosts` can upgrade its agent'),
    withheld: z
      .object({ since: time, epoch: z.int() })
      .nullable()
      .describe('It gets no commands, because it reported this epoch. `dormouse admin host trust` confirms the epoch'),
    cordoned: z
      .boolean()
      .describe('Whether it takes no new desktops. Those on it go on; `dormouse admin host uncordon` ends it'),
    drain_id: id.nullable().describe('The drain that empties it; null where none does'),
    quarantine: z
      .object({ until: time, reason: z.string() })
      .nullable()
      .describe(
        'Its wakes kept failing: until then new desktops go to other hosts, if any can take them. An uncordon ends it',
      ),
    ailment: z.string().nullable().describe('Why it takes no desktop'),
    last_heartbeat_at: time.nullable(),
    driver: z.string().nullable(),
    kvm: z.boolean().nullable(),
    versions: z.record(z.string(), z.string()),
    processors: z
      .number()
      .nullable()
      .describe('Physical processors; `capacity.vcpus` is how many virtual ones it offers'),
    capacity: z.object({ vcpus: z.int(), memory_mib: z.int(), disk_gib: z.int() }).nullable(),
    reserved: z.object({ vcpus: z.int(), memory_mib: z.int(), disk_gib: z.int() }),
    warm: z
      .object({ copies: z.int(), memory_mib: z.int(), max_mib: z.int() })
      .nullable()
      .describe(
        'Paused copies of sleeping desktops in its memory, which wake faster; they are ended where the memory is needed. Null where its agent keeps none',
      ),
    templates: z
      .array(z.object({ image: z.string(), memory_mib: z.int(), vcpus: z.int(), mib: z.int().describe('On its disk') }))
      .optional()
      .describe('Saved boots of images on its disk, with which new desktops of that size begin'),
    images: z.array(z.string()),
    desktops: z.int().describe('Desktops on it'),
    created_at: time,
  })
  .meta({ id: 'Host' })
export type HostJson = z.infer<typeof hostJson>

export const replicaJson = z
  .object({
    id,
    url: z.string().describe('Where agents and other replicas reach it'),
    version: z.string(),
    commit: z.string(),
    leads: z.boolean(),
    started_at: time,
    seen_at: time,
  })
  .meta({ id: 'Replica' })
export type ReplicaJson = z.infer<typeof replicaJson>

export const droppedJson = z
  .object({ dropped: z.int().describe('How many there were') })
  .meta({ id: 'DroppedWarmCopies' })
export type DroppedJson = z.infer<typeof droppedJson>

export const trustedHostJson = z
  .object({ ...hostJson.shape, was_withheld: z.boolean().describe('Whether it was withheld until now') })
  .meta({ id: 'TrustedHost' })
export type TrustedHostJson = z.infer<typeof trustedHostJson>

/** The commands that are kept for a host that is unreachable. */
export const deferrable = [
  'desktop.ensureAsleep',
  'desktop.ensureDestroyed',
  'desktop.ensureAbsent',
  'move.abandon',
  'move.keep',
  'move.settle',
  'move.release',
] as const

/** A command that a host could not carry out yet; the service retries it. */
export const deferredJson = z
  .object({
    desktop_id: id,
    host_id: id,
    command: z.enum(deferrable),
    operation_id: id.describe('The operation that left it behind'),
    attempts: z.int().describe('Failed attempts since then'),
    last_tried_at: time.nullable(),
    last_error: z.string().nullable(),
    created_at: time,
  })
  .meta({ id: 'DeferredCommand' })
export type DeferredJson = z.infer<typeof deferredJson>

/** Something that is wrong now. */
export const alarmJson = z
  .object({
    kind: z
      .string()
      .describe(
        '`inventory`, `mass_action`, `ledger`, `paused`, or what is wrong with a host, such as `host_unreachable`',
      ),
    since: time.nullable().describe('Null if that is not known'),
    host_id: id.nullable(),
    desktop_id: id.nullable(),
    what: z.string(),
    next: z.string().describe('What to do'),
  })
  .meta({ id: 'Alarm' })
export type AlarmJson = z.infer<typeof alarmJson>

export const moveBody = z.object({
  to: z.string().min(1).max(100).optional().describe('Name or id of the new host; without it the service chooses one'),
  mode: moveMode
    .optional()
    .describe(
      'How a desktop moves that is awake. `live` (default): while it runs; if its guest changes faster than it can be sent, as with `hibernate`. `hibernate`: it is hibernated, moves as files, and is woken on the new host. One that sleeps moves as files and stays asleep',
    ),
})
export type MoveBody = z.input<typeof moveBody>

export const wakeOnBody = z.object({
  host: z.string().min(1).max(100).describe('Name or id of the host that the first wake uses, cordoned or not'),
})
export type WakeOnBody = z.input<typeof wakeOnBody>

export const removeHostBody = z.object({
  yes_lose: z.int().min(0).describe('How many desktops may be lost: those whose only disk is there'),
})
export type RemoveHostBody = z.input<typeof removeHostBody>

export const removalJson = z
  .object({
    host_id: id,
    name: z.string(),
    removed_at: time.nullable().describe('Null until it is removed'),
    lost_at: time.nullable().optional().describe('Since when it counts as lost; null where it does not'),
    lost: z.int().describe('Desktops whose only disk is there; a removal makes them `failed`'),
    desktops: z.array(z.object({ id, org_id: id })).describe('These desktops and their organisations'),
    removed_before: z
      .boolean()
      .optional()
      .describe('Of a removal: the host was removed, or lost, before, and nothing was changed'),
  })
  .meta({ id: 'Removal' })
export type RemovalJson = z.infer<typeof removalJson>

export const returnedHostJson = z
  .object({
    host_id: id,
    name: z.string(),
    desktops: z
      .array(z.object({ id, org_id: id }))
      .describe('Desktops that failed with the host. Each becomes `hibernated` or `stopped` if the host still has it'),
  })
  .meta({ id: 'ReturnedHost' })
export type ReturnedHostJson = z.infer<typeof returnedHostJson>

const auditEntryJson = z
  .object({
    id: z.int(),
    at: time,
    actor: z.string().describe('`key:<id>`, `jwt:<issuer>:<subject>`, or `command line`'),
    action: z.string().describe('Such as `stream.takeover`, `org.create`, `host.remove`'),
    actor_name: z.string().nullable().describe('The name of the key, where it has one'),
    subject: z.string().describe('The id of what was changed'),
    subject_name: z.string().nullable().describe('The name of the organisation, host or key, where it has one'),
    details: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntryJson = z.infer<typeof auditEntryJson>
/** Newest first. */
export const auditJson = z.object({ entries: z.array(auditEntryJson) })
