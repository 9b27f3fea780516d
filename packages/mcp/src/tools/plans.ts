// Tools for what a desktop does by itself: its schedule, and its end.
import { type ScheduleBody, scheduleTimeFrom } from '@dormouse/client'
import { z } from 'zod'
import { tool } from '../tool.ts'

const never = 'never'
const when = (what: string) =>
  z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe(`When it ${what}: cron such as "0 8 * * 1-5", one time such as 2026-01-31T08:00:00, or "never"`)

const timeOf = (text: string, timeZone: string | undefined) =>
  text === never ? null : scheduleTimeFrom(text, timeZone)

export const scheduleDesktop = tool({
  name: 'desktop_schedule',
  title: 'Set a desktop’s schedule',
  description:
    'Sets when a desktop wakes and hibernates by itself, and shows what comes next. What is not given stays as it is.',
  grant: 'power',
  onDesktop: true,
  idempotent: true,
  input: {
    wake: when('wakes'),
    hibernate: when('hibernates'),
    time_zone: z.string().max(64).optional().describe('Of these times, such as Europe/Berlin; UTC by default'),
  },
  output: {
    desktop_id: z.string(),
    next: z.array(z.strictObject({ what: z.string(), at: z.string(), because: z.string() })),
  },
  run: async ({ desktop_id: id, wake, hibernate, time_zone }, { client, signal }) => {
    const schedule: ScheduleBody = {
      ...(wake !== undefined && { wake: timeOf(wake, time_zone) }),
      ...(hibernate !== undefined && { hibernate: timeOf(hibernate, time_zone) }),
    }
    if (Object.keys(schedule).length > 0) await client.changeDesktop(id, { schedule }, { signal })
    const { next } = await client.getIdle(id, { signal })
    const lines = next.map(({ what, at, because }) => `${at}  ${what}, because of its ${because}`)
    const data = { desktop_id: id, next: next.map(({ what, at, because }) => ({ what, at, because })) }
    return { text: lines.join('\n') || `Nothing happens to ${id} by itself.`, data }
  },
})

export const destroyLater = tool({
  name: 'desktop_destroy_later',
  title: 'Set a desktop’s end',
  description: 'Destroys a desktop by itself after some time, with its memory, disk and files, or never.',
  grant: 'destroy',
  onDesktop: true,
  idempotent: false,
  input: { after_secs: z.int().min(0).describe('Seconds from now; 0: never') },
  output: { desktop_id: z.string(), destroy_at: z.string().optional() },
  run: async ({ desktop_id: id, after_secs }, { client, signal }) => {
    const { destroy_at } = await client.changeDesktop(id, { destroy_after_secs: after_secs || null }, { signal })
    if (destroy_at === null) return { text: `${id} is not destroyed by itself`, data: { desktop_id: id } }
    return { text: `${id} is destroyed at ${destroy_at}`, data: { desktop_id: id, destroy_at } }
  },
})
