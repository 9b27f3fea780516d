// Requests at a fixed rate, as many callers send them: a slow answer delays no later request. Latency counts from when a
// request was due, so that a stall shows in every request that it delays.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Connection } from '../connection.ts'
import type { Service } from '../service.ts'
import { percentile } from '../statistics.ts'

export interface Paced {
  sent: number
  failed: number
  p50: number
  p99: number
  max: number
}

export interface Request {
  kind: 'read' | 'mutation'
  method: string
  path: string
}

const tickMs = 5

/** Sends what `next` returns, this many per second, and judges no mutation: it may meet a desktop that is busy. */
export async function paced(
  service: Service,
  { perSecond, seconds, next }: { perSecond: number; seconds: number; next: () => Request },
): Promise<Record<Request['kind'], Paced>> {
  const times = { read: [] as number[], mutation: [] as number[] }
  const failed = { read: 0, mutation: 0 }
  const idle: Connection[] = []
  const all: Connection[] = []
  const underWay: Promise<void>[] = []
  const send = async ({ kind, method, path }: Request, dueAt: number) => {
    const connection = openOne()
    const { status } = await connection.send(method, path).catch(() => ({ status: 599 }))
    times[kind].push(performance.now() - dueAt)
    if (status >= 500 || (kind === 'read' && status !== 200)) failed[kind]++
    idle.push(connection)
  }
  /** The server closes a connection that was idle for long. */
  const openOne = () => {
    for (let one = idle.pop(); one; one = idle.pop()) if (one.isOpen) return one
    const made = service.connect()
    all.push(made)
    return made
  }
  const began = performance.now()
  for (let sent = 0; performance.now() - began < seconds * 1_000; await sleep(tickMs)) {
    const due = Math.floor(((performance.now() - began) * perSecond) / 1_000)
    for (; sent < due; sent++) underWay.push(send(next(), began + (sent * 1_000) / perSecond))
  }
  await Promise.all(underWay)
  for (const connection of all) connection.close()
  const of = (kind: Request['kind']): Paced => ({
    sent: times[kind].length,
    failed: failed[kind],
    p50: percentile(times[kind], 0.5),
    p99: percentile(times[kind], 0.99),
    max: percentile(times[kind], 1),
  })
  return { read: of('read'), mutation: of('mutation') }
}
