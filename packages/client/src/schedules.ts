// A desktop's schedule: in camelCase, as it is given and as it is read, and from a text of a person or a model.
import type { ScheduleBody, ScheduleJson, ScheduleTime } from '@dormouse/contract'
import { type Camel, camel } from './camel.ts'

/** When a desktop wakes and hibernates by itself: each by a cron expression with its time zone, or at one time. */
export type Schedule = Camel<ScheduleBody>

type Time = NonNullable<Schedule['wake']>

/** What is not known is sent as it is, so that the service names it. */
export function scheduleBodyOf(schedule: Schedule | null | undefined): ScheduleBody | null | undefined {
  if (!schedule) return schedule
  const { wake, hibernate, ...others } = schedule
  return { ...others, wake: timeBodyOf(wake), hibernate: timeBodyOf(hibernate) }
}

export const shownSchedule = (schedule: ScheduleJson | null): Camel<ScheduleJson> | null => schedule && camel(schedule)

function timeBodyOf(time: Time | null | undefined) {
  if (!time) return time
  const { timeZone, ...others } = time
  return { ...others, time_zone: timeZone }
}

/** One time has a date. The service reads everything else. */
export const scheduleTimeFrom = (text: string, timeZone: string | undefined): ScheduleTime => ({
  ...(/^\d{4}-\d\d-\d\dT/.test(text) ? { at: text } : { cron: text }),
  ...(timeZone !== undefined && { time_zone: timeZone }),
})
