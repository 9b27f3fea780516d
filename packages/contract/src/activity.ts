// What keeps a desktop awake: the classes of activity, what hosts report of them, wake locks, and a desktop's idle view.
import { z } from 'zod'
import { durationMs, listOf, printable, recordOf } from './bounds.ts'
import { desktopState, time } from './desktops.ts'
import { activityClass } from './idle-policy.ts'
import { id } from './ids.ts'
import { nextJson } from './schedules.ts'

/** Milliseconds that have passed, cut to a year. Ages need no common clock. */
const longestAgeMs = 31_536_000_000
const ageMs = z
  .int()
  .min(0)
  .overwrite((ms) => Math.min(ms, longestAgeMs))

/** The classes that a host sees. The control plane sees the others. */
export const hostClasses = ['command', 'transfer', 'cpu', 'network'] as const
export const hostClass = z.enum(hostClasses)
export type HostClass = z.infer<typeof hostClass>

const classesOfHost = listOf(hostClass, hostClasses.length)

/** A host's knowledge of one awake desktop. A host reports no more than it has seen since `watchedMs`. */
export const guestActivity = z.object({
  desktopId: id,
  generation: z.int().min(0),
  /** Since when this agent process has watched the desktop. */
  watchedMs: ageMs,
  /** Classes whose activity goes on now. */
  busy: classesOfHost,
  /** How long ago the latest activity of each class was. Classes without any are absent. */
  ages: recordOf(ageMs, hostClasses.length),
})
export type GuestActivity = z.infer<typeof guestActivity>

/** On which a host hibernates a desktop: for this long no activity of these classes, and no command or transfer in flight. */
export const idleCondition = z.object({ forMs: durationMs, classes: classesOfHost })
export type IdleCondition = z.infer<typeof idleCondition>

/** What a host needs to hibernate an idle desktop without contact to a leader. */
export const idleRule = z.object({
  desktopId: id,
  condition: idleCondition,
  /** For this long a wake lock holds it awake. */
  heldMs: ageMs,
})
export type IdleRule = z.infer<typeof idleRule>

/** The longest time for which a wake lock is taken; it can be renewed. */
export const wakeLockMaxSecs = 86_400
export const wakeLocksMax = 16

export const wakeLockName = z
  .string()
  .regex(/^[\w.-]{1,64}$/, 'must be 1 to 64 letters, digits, dots, hyphens or underscores')

/** Unknown fields are refused: a misspelt `expires_in_secs` must not be a silent no-op. */
export const wakeLockBody = z
  .strictObject({
    reason: printable(200).describe('Why the desktop must stay awake; shown in its idle view'),
    expires_in_secs: z
      .int()
      .min(1)
      .max(wakeLockMaxSecs)
      .describe('Seconds from now after which the lock ends by itself; send the request again to renew it'),
  })
  .meta({ id: 'WakeLockBody', examples: [{ reason: 'nightly build', expires_in_secs: 7_200 }] })
export type WakeLockBody = z.infer<typeof wakeLockBody>

export const wakeLockJson = z
  .object({ name: wakeLockName, reason: z.string(), created_at: time, expires_at: time })
  .meta({
    id: 'WakeLock',
    examples: [
      {
        name: 'build',
        reason: 'nightly build',
        created_at: '2026-01-01T12:00:00.000Z',
        expires_at: '2026-01-01T14:00:00.000Z',
      },
    ],
  })
export type WakeLockJson = z.infer<typeof wakeLockJson>

/** Why a desktop stays awake now, beside the classes of activity. A later release may add more. */
export const awakeReasons = [
  ...activityClass.options,
  'wake',
  'wake_lock',
  'settings',
  'operation',
  'host',
  'never',
  'off',
] as const

export const idleJson = z
  .object({
    desktop_id: id,
    state: desktopState,
    idle_timeout_secs: z.int().min(0).describe('0 = never'),
    idle_policy: z.array(activityClass).describe('The classes of activity that count'),
    activity: z
      .array(
        z.object({
          class: activityClass,
          counts: z.boolean().describe('Whether the desktop’s policy counts it'),
          now: z.boolean().describe('Whether it goes on now'),
          last_at: time.nullable().describe('The latest activity; null where none is known'),
        }),
      )
      .describe('Each class, with its latest activity'),
    awake_because: z
      .array(
        z.object({
          reason: z.enum(awakeReasons),
          detail: z.string(),
          until: time.nullable().describe('Null where the end is not known'),
        }),
      )
      .describe('What keeps the desktop awake now; empty where nothing does'),
    sleeps_at: time
      .nullable()
      .describe(
        'When it hibernates if nothing happens. It may be seconds later, and minutes where many desktops fall due at once. Null where it is not awake, or where that time is not known',
      ),
    next: z
      .array(nextJson)
      .describe(
        'What the service does next to the desktop by itself, the earliest first; empty where nothing is known',
      ),
    wake_locks: z.array(wakeLockJson),
  })
  .meta({
    id: 'Idle',
    examples: [
      {
        desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
        state: 'awake',
        idle_timeout_secs: 1_800,
        idle_policy: ['command', 'transfer', 'screen', 'input'],
        activity: [{ class: 'command', counts: true, now: false, last_at: '2026-01-01T12:10:00.000Z' }],
        awake_because: [
          { reason: 'command', detail: 'a command ran less than 1800 s ago', until: '2026-01-01T12:40:00.000Z' },
        ],
        sleeps_at: '2026-01-01T12:40:00.000Z',
        next: [
          { what: 'hibernate', at: '2026-01-01T12:40:00.000Z', because: 'idle' },
          { what: 'wake', at: '2026-01-02T07:00:00.000Z', because: 'schedule' },
        ],
        wake_locks: [],
      },
    ],
  })
export type IdleJson = z.infer<typeof idleJson>
