// Options for a desktop's end and its schedule, and how both are shown.
import { type DesktopJson, type ScheduleBody, scheduleTimeFrom } from '@dormouse/client'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { CliError, exitCodes } from '../failures.ts'

/** False: none. */
export interface PlanOptions {
  destroyAfter?: number | false
  scheduleWake?: string | false
  scheduleHibernate?: string | false
  timeZone?: string
}

type Time = NonNullable<ScheduleBody['wake']>
type Schedule = NonNullable<DesktopJson['schedule']>

/** Adds them; with `removes`, also those that take away what a desktop has. */
export function addPlanOptions(command: Command, { removes }: { removes: boolean }): Command {
  const options = [
    new Option('--destroy-after <time>', 'destroy it after so long, such as 45m, 2h or 30d').argParser(lifeSecs),
    new Option('--schedule-wake <when>', `wake it at these times, such as '0 8 * * 1-5', or once at 2026-01-31T08:00`),
    new Option('--schedule-hibernate <when>', 'hibernate it at these times'),
    new Option('--time-zone <name>', 'of these times, such as Europe/Berlin (default: UTC)'),
    ...(removes
      ? [
          new Option('--no-destroy-after', 'do not destroy it by itself'),
          new Option('--no-schedule-wake', 'do not wake it by a schedule'),
          new Option('--no-schedule-hibernate', 'do not hibernate it by a schedule'),
        ]
      : []),
  ]
  for (const option of options) command.addOption(removes ? option.conflicts('select') : option)
  return command
}

/** The fields of a create or a change that these options set. Throws if the time zone belongs to nothing. */
export function planOf({ destroyAfter, scheduleWake, scheduleHibernate, timeZone }: PlanOptions) {
  if (timeZone !== undefined && !scheduleWake && !scheduleHibernate)
    throw new CliError(
      '--time-zone belongs to a schedule',
      'give --schedule-wake or --schedule-hibernate',
      exitCodes.usage,
    )
  const schedule: ScheduleBody = {
    ...(scheduleWake !== undefined && { wake: timeOf(scheduleWake, timeZone) }),
    ...(scheduleHibernate !== undefined && { hibernate: timeOf(scheduleHibernate, timeZone) }),
  }
  return {
    ...(destroyAfter !== undefined && { destroy_after_secs: destroyAfter === false ? null : destroyAfter }),
    ...(Object.keys(schedule).length > 0 && { schedule }),
  }
}

/** What is shown of both, by its names for people; nothing where there is none. */
export const shownPlan = ({ destroy_at: destroyAt, schedule }: DesktopJson) => ({
  ...(schedule?.wake && { wakes: timeText(schedule.wake) }),
  ...(schedule?.hibernate && { hibernates: timeText(schedule.hibernate) }),
  ...(destroyAt && { 'destroyed at': destroyAt }),
})

const timeOf = (when: string | false, timeZone: string | undefined): Time | null =>
  when === false ? null : scheduleTimeFrom(when, timeZone)

const timeText = ({ cron, time_zone: timeZone, at }: NonNullable<Schedule['wake']>): string =>
  at ?? `${cron} (${timeZone})`

const units = { s: 1, m: 60, h: 3_600, d: 86_400 }

function lifeSecs(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const secs = Number(count) * units[unit as keyof typeof units]
  if (secs >= 1) return secs
  throw new InvalidArgumentError('It must be a time of at least 1s, such as 45m, 2h or 30d.')
}
