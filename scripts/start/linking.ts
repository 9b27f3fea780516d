// Which hosts the instance can use: one that was removed is not started, and one that does not link is named with its reason.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { HostJson } from '@dormouse/client'
import type { Say } from '../ground/processes.ts'
import { until } from './api.ts'
import { readJson } from './instance.ts'

export interface Place {
  name: string
  /** The host's state: delete it, and the host is a new one. */
  folder: string
}

export interface StartedHost extends Place {
  logFile: string
  /** Its log may hold what earlier starts said. */
  since: Date
}

export interface LinkingOptions {
  list(): Promise<HostJson[]>
  isUsable(host: HostJson): boolean
  start(place: Place): Promise<StartedHost>
  say: Say
  patienceMs?: number
}

/** Starts the hosts that were not removed and answers how many are usable; throws, with each one's reason, where none is. */
export async function linkHosts(places: readonly Place[], options: LinkingOptions): Promise<number> {
  const { list, start, say } = options
  const known = await list()
  const removed = places.filter((place) => hostOf(place, known)?.state === 'removed')
  const refused = removed.map(removal)
  const wanted = places.filter((place) => !removed.includes(place))
  if (wanted.length === 0) throw noHost(refused)
  refused.forEach(say)
  const started: StartedHost[] = []
  for (const place of wanted) started.push(await start(place))
  const missing = await untilLinked(started, options)
  if (missing.length === started.length) throw noHost([...refused, ...missing])
  missing.forEach(say)
  return started.length - missing.length
}

/** The reasons of those that do not link in time. */
async function untilLinked(started: StartedHost[], options: LinkingOptions): Promise<string[]> {
  const { list, isUsable, patienceMs = 60_000 } = options
  const missingIn = (hosts: HostJson[]) =>
    started.filter((one) => {
      const host = hostOf(one, hosts)
      return !host || !isUsable(host)
    })
  const all = async () => missingIn(await list()).length === 0
  if (await until(all, patienceMs, () => '').catch(() => false)) return []
  const hosts = await list()
  return missingIn(hosts).map((one) => reasonOf(one, hostOf(one, hosts)))
}

/** By the id that it keeps since it enrolled. */
function hostOf({ folder }: Place, hosts: readonly HostJson[]): HostJson | undefined {
  const hostId = readJson<{ hostId: string | null }>(join(folder, 'identity.json'))?.hostId
  return hosts.find(({ id }) => id === hostId)
}

const removal = ({ name, folder }: Place) =>
  `${name} was removed from this installation; to use it again, delete ${folder} and run npm start`

const noHost = (reasons: string[]) => new Error(`no host is usable:\n  ${reasons.join('\n  ')}`)

function reasonOf({ name, logFile, since }: StartedHost, host: HostJson | undefined): string {
  const why = host?.ailment ?? lastComplaint(logFile, since) ?? 'its log names no reason'
  return `${name} did not become usable: ${why}; its log: ${logFile}`
}

interface LogLine {
  level: number
  time: string
  msg: string
  why?: string
  err?: { message?: string }
}

function lastComplaint(logFile: string, since: Date): string | undefined {
  const lines = readFileSync(logFile, 'utf8').split('\n').map(asLogLine)
  const last = lines.findLast((line) => line && line.level >= 40 && new Date(line.time) >= since)
  return last && [last.msg, last.why ?? last.err?.message].filter(Boolean).join(': ')
}

function asLogLine(text: string): LogLine | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
