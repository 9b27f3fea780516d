// Cron expressions of five fields, and times of day, in a time zone. Pure.
import { Cron } from 'croner'

const number = String.raw`\d{1,2}`
const part = (names: string) => {
  const value = names ? `(?:${number}|${names})` : number
  return String.raw`(?:${value}|(?:\*|${value}-${value})(?:/${number})?)`
}
const field = (names = '') => `${part(names)}(?:,${part(names)})*`
const months = 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec'
const days = 'sun|mon|tue|wed|thu|fri|sat'
const form = new RegExp(`^${[field(), field(), field(), field(months), field(days)].join(' ')}$`, 'i')

/** Whether it has five fields that cron of every system reads alike. */
export function isCron(text: string): boolean {
  if (!form.test(text)) return false
  try {
    new Cron(text)
    return true
  } catch {
    return false
  }
}

/** Whether the time zone database has this name. An offset, such as `+01:00`, has no rules and is no name. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][\w+-]*(\/[\w+-]+)*$/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/** A local time as an instant. One that clocks leave out is as much later; of one that comes twice, it is the first. */
export const instantOf = (local: string, timeZone: string): Date =>
  new Cron(local, { timezone: timeZone }).nextRun(new Date(0)) ?? new Date(0)

/** Desktops of a fleet have the same times: so many answers are kept. */
const remembered = 1_000
const known = new Map<string, Date | null>()

/** The first time behind `from`; null if there is none. */
export function cronAfter(cron: string, timeZone: string, from: Date): Date | null {
  // Times are whole minutes, so all of a minute has the same answer.
  const minute = Math.floor(from.getTime() / 60_000)
  const key = `${minute} ${timeZone} ${cron}`
  const before = known.get(key)
  if (before !== undefined) return before
  const next = new Cron(cron, { timezone: timeZone }).nextRun(new Date(minute * 60_000))
  if (known.size >= remembered) known.clear()
  known.set(key, next)
  return next
}
