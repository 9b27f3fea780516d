// Tracks current problems. Each is logged once when it begins, and is listed until it ends. They are stored in the database, so
// that the next leader does not log them again. Does not know who looks for problems.
import type { Log } from '@dormouse/process'
import type { Pool } from '../db/pool.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as store from './store.ts'

export type AlarmKind = 'inventory' | 'mass_action' | 'ledger' | 'paused' | 'events'

export interface Found {
  /** Identifies the problem: it stays the same while the problem lasts. */
  subject: string
  hostId: string | null
  desktopId: string | null
  what: string
  /** Further fields of the log line. */
  facts?: object
}

/** The most alarms that one check lists. Further ones are only counted. */
const most = 20
const more = 'more'

export class StandingAlarms {
  readonly #pool: Pool
  readonly #leadership: Leadership
  /** The alarms in the database, by kind and scope, as this leader has read or written them. */
  #known: Promise<Map<string, Set<string>>> = Promise.resolve(new Map())
  #knownIn: Term | undefined

  constructor({ pool, leadership }: { pool: Pool; leadership: Leadership }) {
    this.#pool = pool
    this.#leadership = leadership
  }

  list(): Promise<store.AlarmRow[]> {
    return store.list(this.#pool)
  }

  /** Replaces the alarms of that kind and scope with these. */
  async are(kind: AlarmKind, scope: string, found: Found[], log: Log): Promise<void> {
    const known = await this.#read(kind, scope)
    const current = bounded(found, known)
    await this.#write(kind, scope, { current, ended: [...known].filter((subject) => !current.has(subject)) }, log)
  }

  /** Adds one alarm. */
  async is(kind: AlarmKind, scope: string, found: Found, log: Log): Promise<void> {
    const known = await this.#read(kind, scope)
    if (known.size >= most) return
    await this.#write(kind, scope, { current: new Map([[found.subject, found]]), ended: [] }, log)
  }

  async #read(kind: AlarmKind, scope: string): Promise<Set<string>> {
    const { term } = this.#leadership
    if (this.#knownIn !== term) {
      this.#knownIn = term
      this.#known = store.list(this.#pool).then(byScope)
      this.#known.catch(() => {
        this.#knownIn = undefined
      })
    }
    const all = await this.#known
    const name = nameOf(kind, scope)
    const known = all.get(name) ?? new Set()
    all.set(name, known)
    return known
  }

  async #write(
    kind: AlarmKind,
    scope: string,
    { current, ended }: { current: Map<string, Found>; ended: string[] },
    log: Log,
  ): Promise<void> {
    const known = await this.#read(kind, scope)
    const begun = [...current.values()].filter(({ subject }) => !known.has(subject))
    if (begun.length === 0 && ended.length === 0) return
    // A concurrent check that finds the same must not log it again.
    for (const { subject } of begun) known.add(subject)
    try {
      await this.#leadership.transaction(async (tx) => {
        if (ended.length > 0) await store.remove(tx, kind, scope, ended)
        if (begun.length > 0)
          await store.insert(
            tx,
            begun.map(({ facts: _, ...one }) => ({ kind, scope, ...one })),
          )
      })
    } catch (error) {
      for (const { subject } of begun) known.delete(subject)
      throw error
    }
    for (const subject of ended) known.delete(subject)
    for (const { hostId, desktopId, what, facts } of begun) {
      const where = { ...(hostId && { host: hostId }), ...(desktopId && { desktop: desktopId }) }
      log.error({ ...where, ...facts, alarm: true, alarmKind: kind }, what)
    }
  }
}

const nameOf = (kind: string, scope: string): string => `${kind} ${scope}`

function byScope(rows: store.AlarmRow[]): Map<string, Set<string>> {
  const grouped = Map.groupBy(rows, ({ kind, scope }) => nameOf(kind, scope))
  return new Map([...grouped].map(([name, some]) => [name, new Set(some.map(({ subject }) => subject))]))
}

/** Alarms that are already known come first, then others up to the limit, then one that counts the rest. */
function bounded(found: Found[], known: ReadonlySet<string>): Map<string, Found> {
  const sorted = [...found].sort((a, b) => Number(known.has(b.subject)) - Number(known.has(a.subject)))
  const listed = sorted.slice(0, most)
  const left = found.length - listed.length
  const { hostId = null } = listed[0] ?? {}
  if (left > 0) {
    const what = 'more alarms were raised for a host than are logged'
    listed.push({ subject: more, hostId, desktopId: null, what, facts: { left } })
  }
  return new Map(listed.map((one) => [one.subject, one]))
}
