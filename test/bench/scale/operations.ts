// Many requests at once, and what becomes of them: what the subjects share. Knows no subject.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../service.ts'

const callersMax = 512
const pollMs = 500
/** How long nothing may settle before the rest counts as stuck. */
const patienceMs = 60_000
const sayEveryMs = 10_000

export interface Sent {
  accepted: number
  /** How long each answer took, in ms. */
  times: number[]
  /** How many answers had which status. */
  statuses: Map<number, number>
}

/** Sends one request for each desktop, as fast as the service answers. */
export async function sendAll(service: Service, desktops: readonly string[], verb: string): Promise<Sent> {
  const left = [...desktops]
  const sent: Sent = { accepted: 0, times: [], statuses: new Map() }
  const call = async () => {
    const connection = service.connect()
    for (let id = left.pop(); id; id = left.pop()) {
      const began = performance.now()
      const { status } = await connection.send('POST', `/v1/desktops/${id}/${verb}`)
      sent.times.push(performance.now() - began)
      sent.statuses.set(status, (sent.statuses.get(status) ?? 0) + 1)
      if (status < 300) sent.accepted++
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: Math.min(callersMax, desktops.length) }, call))
  return sent
}

export const inShort = (counts: ReadonlyMap<number | string, number>): string =>
  [...counts].map(([what, count]) => `${count} × ${what}`).join(', ')

/** Why operations failed since then, by the database's clock, most frequent first. */
export async function failuresSince(service: Service, since: Date): Promise<Map<string, number>> {
  const { rows } = await service.database.query<{ why: string; count: number }>(
    `select concat_ws(': ', kind, error_code, left(cause, 120)) as why, count(*)::int as count from operations
      where state = 'failed' and settled_at >= $1 group by 1 order by 2 desc limit 10`,
    [since],
  )
  return new Map(rows.map(({ why, count }) => [why, count]))
}

/** How many operations are in which state. */
export async function counted(service: Service): Promise<Record<string, number>> {
  const { rows } = await service.database.query<{ state: string; count: number }>(
    'select state, count(*)::int as count from operations group by state',
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

export const liveOf = ({ pending = 0, running = 0 }: Record<string, number>): number => pending + running

export interface Settled {
  succeeded: number
  failed: number
  /** By `performance.now()`: when the last one had settled. */
  endedAt: number
}

/** Waits until `accepted` more operations have settled than had `before`, or until nothing settles any more. */
export async function settledSince(
  service: Service,
  before: Record<string, number>,
  accepted: () => number | undefined,
  say: (line: string) => void,
): Promise<Settled> {
  let [changedAt, saidAt, last] = [performance.now(), performance.now(), -1]
  for (;;) {
    const now = await counted(service)
    const succeeded = (now.succeeded ?? 0) - (before.succeeded ?? 0)
    const failed = (now.failed ?? 0) - (before.failed ?? 0)
    const at = performance.now()
    const all = accepted()
    if (succeeded + failed !== last) changedAt = at
    last = succeeded + failed
    if (all !== undefined && last >= all) return { succeeded, failed, endedAt: at }
    if (at - changedAt > patienceMs) return { succeeded, failed, endedAt: changedAt }
    if (at - saidAt > sayEveryMs) {
      say(`  ${last.toLocaleString('en')} settled, ${liveOf(now).toLocaleString('en')} in flight or waiting`)
      saidAt = at
    }
    await sleep(pollMs)
  }
}

/** Wakes those of the desktops that are not awake, and waits until all are. */
export async function wakeAll(
  service: Service,
  desktops: readonly string[],
  say: (line: string) => void,
): Promise<void> {
  const { rows } = await service.database.query<{ id: string }>(
    `select id from desktops where id = any($1) and state <> 'awake'`,
    [desktops],
  )
  const before = await counted(service)
  const asleep = rows.map(({ id }) => id)
  const { accepted } = await sendAll(service, asleep, 'wake')
  const { failed } = await settledSince(service, before, () => accepted, say)
  if (accepted + failed < asleep.length) say(`  of ${asleep.length} wakes ${accepted} were accepted, ${failed} failed`)
}

export interface Standing {
  /** The epoch of leadership. */
  epoch: number
  /** How many alarms the control planes have logged. */
  alarms: number
}

export async function standing(service: Service): Promise<Standing> {
  const { rows } = await service.database.query<{ epoch: string }>('select epoch from leadership')
  const logs = service.logFiles.map((file) => readFileSync(file, 'utf8'))
  const alarms = logs.reduce((sum, log) => sum + log.split('"alarm":true').length - 1, 0)
  return { epoch: Number(rows[0]!.epoch), alarms }
}

/** CPU time so far, in ms, of each kind of process, and of this one, which sends the load. */
export function cpuMs(service: Service): Record<string, number> {
  const { user, system } = process.cpuUsage()
  return { ...service.cpuMs(), generator: (user + system) / 1_000 }
}
