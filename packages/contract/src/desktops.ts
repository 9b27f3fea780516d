// A desktop as customers see it, and the body of a create.
import { z } from 'zod'
import { printable } from './bounds.ts'
import { activityClass, defaultIdlePolicy, idlePolicy } from './idle-policy.ts'
import { id } from './ids.ts'
import { desktopName, labelChanges, labels } from './labels.ts'
import { lastMetricsJson } from './metrics.ts'
import { destroyAfterSecs, scheduleBody, scheduleJson } from './schedules.ts'
import { useClass, wakeOn } from './use-classes.ts'
import { protection } from './vaults.ts'

export const tiers = ['small', 'default', 'large'] as const
export const tier = z.enum(tiers)
export type Tier = z.infer<typeof tier>

export const billingModes = ['monthly', 'hourly'] as const
export const billingMode = z.enum(billingModes)
export type BillingMode = z.infer<typeof billingMode>

export const desktopStates = [
  'created',
  'waking',
  'awake',
  'hibernating',
  'hibernated',
  'stopped',
  'destroying',
  'destroyed',
  'failed',
] as const
export const desktopState = z.enum(desktopStates)
export type DesktopState = z.infer<typeof desktopState>

/** In a query: exactly `true` or `false`. */
export const flag = z.enum(['true', 'false'], 'must be `true` or `false`').meta({ type: 'boolean' })

/** RFC 3339, UTC, with milliseconds. */
export const time = z.iso.datetime({ precision: 3 }).describe('RFC 3339, UTC, with milliseconds')

const diskGib = z.int().min(1)

export const desktopJson = z
  .object({
    id: id.describe('Desktop identifier'),
    org_id: id.describe('Owning organisation'),
    tier: tier.describe('What it has; a change of a desktop that has been woken waits in `next_tier`'),
    disk_gib: diskGib.describe('Size of its disk'),
    next_tier: tier.nullable().describe('The tier of its next boot (a wake from memory is none); null: the same'),
    next_disk_gib: diskGib.nullable().describe('The size of its disk from its next boot on; null: the same'),
    state: desktopState.describe('Lifecycle state'),
    image_version: z.string().describe('Image version of the desktop'),
    resolved_image_version: z
      .string()
      .nullable()
      .describe(
        'Registered image that its disk was made from, as `name@version`; null before the first wake, and where the image is not registered',
      ),
    generation: z.int().min(0).describe('Fencing generation: 0 at create, +1 with every accepted wake'),
    current_generation_id: id.nullable().describe('Record of the current generation; null before the first wake'),
    idle_timeout_secs: z
      .int()
      .min(0)
      .describe('Idle time-out in seconds, 0 = never: after so long without activity the desktop hibernates'),
    idle_policy: z.array(activityClass).describe('The classes of activity that keep it awake'),
    wake_on: z.array(useClass).describe('The classes of calls that wake it when it is asleep; none by default'),
    billing_mode: billingMode,
    host_id: id.nullable().describe('Host the desktop is placed on; null before the first placement'),
    failure: z.string().nullable().describe('Why the desktop is `failed`, and what to do; null in every other state'),
    name: z.string().nullable().describe('Its name, unique among the organisation’s desktops that are not destroyed'),
    labels: z.record(z.string(), z.string()).describe('Its labels, by key'),
    destroy_at: time.nullable().describe('When the service destroys it; null for never'),
    schedule: scheduleJson
      .nullable()
      .describe('When it wakes and hibernates by itself; its idle view shows what comes next. Null for never'),
    protection,
    protected_at: time.nullable().describe('When its newest copy was taken; null without one'),
    created_at: time,
    updated_at: time,
    metrics: lastMetricsJson
      .nullable()
      .optional()
      .describe('Only with `include=metrics`: what its host has measured last; null where that is not known now'),
  })
  .meta({
    id: 'Desktop',
    examples: [
      {
        id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
        org_id: '01980f3e-0000-7000-8000-5e6a7b80c1d2',
        tier: 'small',
        disk_gib: 10,
        next_tier: null,
        next_disk_gib: null,
        state: 'awake',
        image_version: 'mini',
        resolved_image_version: 'mini@3f0c5a',
        generation: 1,
        current_generation_id: '01980f40-1b2c-7a00-8e11-0a1b2c3d4e5f',
        idle_timeout_secs: 1_800,
        idle_policy: [...defaultIdlePolicy],
        wake_on: [],
        billing_mode: 'hourly',
        host_id: '01980a00-9f8e-7d6c-8b5a-493827160504',
        failure: null,
        name: 'build-1',
        labels: { team: 'qa' },
        destroy_at: '2026-01-31T12:00:00.000Z',
        schedule: { wake: { cron: '0 8 * * 1-5', time_zone: 'Europe/Berlin' } },
        protection: 'disk',
        protected_at: '2026-01-01T12:01:02.512Z',
        created_at: '2026-01-01T12:00:00.000Z',
        updated_at: '2026-01-01T12:02:07.512Z',
      },
    ],
  })
export type DesktopJson = z.infer<typeof desktopJson>

export const desktopListJson = z.object({ desktops: z.array(desktopJson) }).meta({ id: 'DesktopList' })

const imageOfNew = printable(128)

/** Null means omitted: the deployment's default applies. */
export const createDesktopBody = z
  .object({
    tier,
    billing_mode: z
      .enum([...billingModes, ''])
      .transform((given): BillingMode | null => given || null)
      .nullish()
      .describe('`hourly` when omitted or empty'),
    image_version: imageOfNew
      .nullish()
      .describe('One that `GET /v1/images` lists; when omitted, the service’s default'),
    image: imageOfNew.nullish().describe('Another name of `image_version`'),
    idle_timeout_secs: z
      .int()
      .min(0)
      .nullish()
      .describe('Idle time-out in seconds, 0 = never: after so long without activity the desktop hibernates'),
    wake_on: wakeOn.nullish().describe('The classes of calls that wake it when it is asleep; none by default'),
    name: desktopName.nullish().describe('Unique among the organisation’s desktops that are not destroyed'),
    labels: labels.nullish().describe('Labels to select it by, such as `team`: `qa`'),
    get_or_create: z
      .boolean()
      .nullish()
      .describe('If the organisation has a desktop of that `name`, return it unchanged; otherwise create it'),
    destroy_after_secs: destroyAfterSecs.nullish(),
    schedule: scheduleBody.nullish().describe('When it wakes and hibernates by itself'),
  })
  .meta({
    id: 'CreateDesktopBody',
    examples: [
      { tier: 'small', image_version: 'mini', idle_timeout_secs: 1_800 },
      { tier: 'small', name: 'build-1', labels: { team: 'qa' }, get_or_create: true },
      { tier: 'small', destroy_after_secs: 86_400 },
    ],
  })
export type CreateDesktopBody = z.infer<typeof createDesktopBody>

/** Unknown fields are refused: a misspelt `idle_policy` must not be a silent no-op. */
export const changeDesktopBody = z
  .strictObject({
    idle_timeout_secs: z.int().min(0).optional().describe('Idle time-out in seconds, 0 = never'),
    wake_on: wakeOn.optional().describe('The classes of calls that wake it when it is asleep; `[]` for none'),
    idle_policy: idlePolicy
      .nullish()
      .describe('The classes of activity that keep it awake; `null`: all but `cpu` and `network`'),
    name: desktopName.nullish().describe('Another name; `null`: none'),
    labels: labelChanges.optional().describe('Labels to set; `null` removes one. The others stay'),
    destroy_after_secs: destroyAfterSecs.nullish(),
    schedule: scheduleBody
      .nullish()
      .describe('When it wakes and hibernates by itself; what is not named stays, and `null` removes'),
    tier: tier.optional().describe('Its processors and memory from its next boot on; its disk stays'),
    disk_gib: diskGib.optional().describe('The size of its disk from its next boot on; a disk only grows'),
  })
  .meta({
    id: 'ChangeDesktopBody',
    examples: [
      { idle_timeout_secs: 600 },
      { idle_policy: ['command', 'cpu'] },
      { labels: { team: 'qa', run: null } },
      { destroy_after_secs: 86_400 },
      { schedule: { hibernate: { cron: '0 18 * * 1-5', time_zone: 'Europe/Berlin' } } },
      { tier: 'large', disk_gib: 40 },
    ],
  })
export type ChangeDesktopBody = z.infer<typeof changeDesktopBody>
