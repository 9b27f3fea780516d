// When a desktop ends, wakes and hibernates by itself: its end, its schedule, and what happens next.
import { z } from 'zod'

/** RFC 3339, UTC, with milliseconds. */
const time = z.iso.datetime({ precision: 3 })

/** A hundred years. */
export const longestPlanSecs = 3_153_600_000
export const destroyAfterSecs = z
  .int()
  .min(1)
  .max(longestPlanSecs)
  .describe('Seconds from now after which the service destroys the desktop, whatever its state is then')

const cronMax = 100

export const hasOffset = (at: string): boolean => /(?:Z|[+-]\d\d:\d\d)$/.test(at)

/** Either a cron expression or one time, and the time zone in which it is read. Which times these are, the service says. */
export const scheduleTime = z
  .strictObject({
    cron: z
      .string()
      .max(cronMax, `must be at most ${cronMax} characters`)
      .optional()
      .describe('Five fields: minute, hour, day of month, month, day of week, such as `0 8 * * 1-5`'),
    time_zone: z
      .string()
      .max(64, 'must be at most 64 characters')
      .optional()
      .describe('A name of the IANA database, such as `Europe/Berlin`; `UTC` when omitted'),
    at: z.iso
      .datetime({ offset: true, local: true })
      .max(64)
      .optional()
      .describe('One time: `2026-01-01T08:00:00+01:00`, or `2026-01-01T08:00:00` in its `time_zone`'),
  })
  .refine((given) => (given.cron === undefined) !== (given.at === undefined), 'must have either `cron` or `at`')
  .refine((given) => given.at === undefined || given.time_zone === undefined || !hasOffset(given.at), {
    path: ['time_zone'],
    message: 'must be omitted, because `at` has an offset of its own',
  })
  .meta({
    id: 'ScheduleTime',
    examples: [{ cron: '0 8 * * 1-5', time_zone: 'Europe/Berlin' }, { at: '2026-01-01T08:00:00+01:00' }],
  })
export type ScheduleTime = z.infer<typeof scheduleTime>

export const scheduleActions = ['wake', 'hibernate'] as const
export type ScheduleAction = (typeof scheduleActions)[number]

export const scheduleBody = z
  .strictObject({
    wake: scheduleTime.nullish().describe('When it wakes; `null`: not by a schedule'),
    hibernate: scheduleTime.nullish().describe('When it hibernates; `null`: not by a schedule'),
  })
  .meta({
    id: 'ScheduleBody',
    examples: [
      {
        wake: { cron: '0 8 * * 1-5', time_zone: 'Europe/Berlin' },
        hibernate: { cron: '0 18 * * 1-5', time_zone: 'Europe/Berlin' },
      },
    ],
  })
export type ScheduleBody = z.infer<typeof scheduleBody>

const shownTime = z
  .object({
    cron: z.string().optional(),
    time_zone: z.string().optional().describe('Of `cron`'),
    at: time.optional().describe('In place of `cron`: one time'),
  })
  .meta({ id: 'ShownScheduleTime', examples: [{ cron: '0 8 * * 1-5', time_zone: 'Europe/Berlin' }] })

/** A schedule as it is stored and shown. */
export const scheduleJson = z
  .object({ wake: shownTime.optional(), hibernate: shownTime.optional() })
  .meta({ id: 'Schedule', examples: [{ wake: { cron: '0 8 * * 1-5', time_zone: 'Europe/Berlin' } }] })
export type ScheduleJson = z.infer<typeof scheduleJson>

/** Why it happens: by the idle timeout, by the schedule, or because its end has come. A later release may add more. */
export const nextReasons = ['idle', 'schedule', 'end'] as const

export const nextJson = z
  .object({
    what: z.enum(['wake', 'hibernate', 'destroy']).describe('What the service does; a later release may add more'),
    at: time,
    because: z.enum(nextReasons).describe('A later release may add more'),
  })
  .meta({
    id: 'Next',
    examples: [{ what: 'wake', at: '2026-01-02T07:00:00.000Z', because: 'schedule' }],
  })
export type NextJson = z.infer<typeof nextJson>
