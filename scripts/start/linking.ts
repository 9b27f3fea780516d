// Starts the hosts and waits for them. A host that was removed is not started; one that does not connect is reported with
// its reason.
import { join } from 'node:path'
import type { HostJson } from '@dormouse/client'
import { type Say, waitFor } from '../testbed/processes.ts'
import { apiPollMs } from './api.ts'
import { readJson } from './instance.ts'
import { lastWarning } from './last-warning.ts'

export interface Place {
  name: string
  /** The host's state. If it is deleted, the host enrols as a new one. */
  folder: string
}

export interface StartedHost extends Place {
  logFile: string
  /** Its log may hold lines of earlier starts. */
  since: Date
}

export interface LinkingOptions<P extends Place> {
  list(): Promise<HostJson[]>
  isUsable(host: HostJson): boolean
  start(place: P): Promise<StartedHost>
  say: Say
  timeoutMs?: number
}

/** Returns how many hosts are usable. Throws, with the reason of each, if none is. */
export async function linkHosts<P extends Place>(places: readonly P[], options: LinkingOptions<P>): Promise<number> {
  const { list, start, say } = options
  const known = await list()
  const removed = places.filter((place) => hostOf(place, known)?.state === 'removed')
  const refused = removed.map(removal)
  const wanted = places.filter((place) => !removed.includes(place))
  if (wanted.length === 0) throw noHost(refused)
  refused.forEach(say)
  const started: StartedHost[] = []
  for (const place of wanted) started.push(await start(place))
  const missing = await unusable(started, options)
  if (missing.length === started.length) throw noHost([...refused, ...missing])
  missing.forEach(say)
  return started.length - missing.length
}

/** Waits for the hosts; returns the reasons of those that are not usable in time. */
async function unusable(
  started: StartedHost[],
  options: Pick<LinkingOptions<Place>, 'list' | 'isUsable' | 'timeoutMs'>,
): Promise<string[]> {
  const { list, isUsable, timeoutMs = 60_000 } = options
  const missingIn = (hosts: HostJson[]) =>
    started.filter((one) => {
      const host = hostOf(one, hosts)
      return !host || !isUsable(host)
    })
  const all = () =>
    list().then(
      (hosts) => missingIn(hosts).length === 0,
      () => false,
    )
  if (await waitFor(all, timeoutMs, apiPollMs)) return []
  const hosts = await list()
  return missingIn(hosts).map((one) => reasonOf(one, hostOf(one, hosts)))
}

/** A host keeps the id that it got when it enrolled. */
function hostOf({ folder }: Place, hosts: readonly HostJson[]): HostJson | undefined {
  const hostId = readJson<{ hostId: string | null }>(join(folder, 'identity.json'))?.hostId
  return hosts.find(({ id }) => id === hostId)
}

const removal = ({ name, folder }: Place) =>
  `${name} was removed from this installation; to use it again, delete ${folder} and run npm start`

const noHost = (reasons: string[]) => new Error(`no host is usable:\n  ${reasons.join('\n  ')}`)

function reasonOf({ name, logFile, since }: StartedHost, host: HostJson | undefined): string {
  const why = host?.ailment ?? lastWarning(logFile, since) ?? 'its log gives no reason'
  return `${name} did not connect: ${why}; log: ${logFile}`
}
