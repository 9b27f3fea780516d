// Copies desktops that sleep, one at a time on each host, and removes what is not kept. All that it needs is in the database, so
// that another leader goes on. Only the leader asks hosts for copies, so it knows when nothing works on a vault.
import { forgottenMax, newId, Refusal, type RefusalCode } from '@dormouse/contract'
import { type Log, ReadWriteLock } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import { noteOfDesktop } from '../events/noted.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import { kept, type Policy, policyOf } from './judge.ts'
import * as store from './store.ts'

export interface CopierOptions {
  pool: Pool
  leadership: Leadership
  links: Pick<Links, 'command' | 'takesCommands'>
  /** The vault of copies; undefined for none. */
  vault: string | undefined
  /** For desktops that no policy of their organisation selects. */
  usual: Policy
  /** A desktop is left alone for so long after it fell asleep. */
  afterMs: number
  log: Log
}

/** Looked at together. */
const readAtOnce = 500
const copyMs = 6 * 3_600_000
const forgetMs = 600_000
/** While the desktop is in use, or between two operations. */
const soonSecs = 5
const troubleSecs = 60
const offSecs = 600

export class Copier {
  readonly #options: CopierOptions
  /** The hosts that copy for this leader. */
  readonly #hosts = new Map<string, Promise<void>>()
  /** A removal needs the vault for itself. */
  readonly #vault = new ReadWriteLock()
  /** It has made a copy, so it knows the vault. */
  #lastHost: string | undefined

  constructor(options: CopierOptions) {
    this.#options = options
  }

  /** To be called every two seconds by the leader. Returns before the copies are made. */
  async look(): Promise<void> {
    const { pool, vault, afterMs, leadership, links } = this.#options
    const { term } = leadership
    if (!vault || !term) return
    const byHost = new Map<string, store.DueRow[]>()
    for (const row of await store.due(pool, vault, afterMs / 1_000, readAtOnce))
      byHost.set(row.hostId, [...(byHost.get(row.hostId) ?? []), row])
    for (const [hostId, rows] of byHost) {
      if (this.#hosts.has(hostId) || !links.takesCommands(hostId)) continue
      const work = this.#onHost(term, vault, rows).finally(() => this.#hosts.delete(hostId))
      this.#hosts.set(hostId, work)
    }
  }

  /** To be called now and then by the leader: removes copies that are not kept from their vault. */
  async tidy(): Promise<void> {
    const { pool, vault, links, leadership } = this.#options
    if (!vault || !leadership.term) return
    await leadership.transaction((tx) => store.forgetDestroyed(tx))
    const gone = await store.forgotten(pool, vault, forgottenMax)
    const hostId = this.#lastHost
    if (gone.length === 0 || !hostId || !links.takesCommands(hostId)) return
    const { signal } = leadership.term
    const snapshots = gone.map(({ snapshot }) => snapshot)
    await this.#vault.write(() =>
      links.command(hostId, 'copy.forget', { vault, snapshots }, { signal, timeoutMs: forgetMs }),
    )
    await leadership.transaction((tx) =>
      store.remove(
        tx,
        gone.map(({ id }) => id),
      ),
    )
  }

  /** Resolves when no copy is made. */
  async settled(): Promise<void> {
    while (this.#hosts.size > 0) await Promise.all(this.#hosts.values())
  }

  /** Never rejects. What is left is found by the next look. */
  async #onHost(term: Term, vault: string, rows: store.DueRow[]): Promise<void> {
    const { log } = this.#options
    for (const row of rows) {
      if (term.signal.aborted) return
      try {
        await this.#one(term, vault, row)
      } catch (err) {
        if (!term.signal.aborted) log.info({ err, desktop: row.id, host: row.hostId }, 'a copy was not made')
      }
    }
  }

  async #one(term: Term, vault: string, row: store.DueRow): Promise<void> {
    const { pool, usual } = this.#options
    const policy = policyOf(await store.policiesOf(pool, row.orgId), row.labels, usual)
    if (policy.when === 'off') return store.postpone(pool, row.id, row.turn, offSecs)
    try {
      await this.#vault.read(() => this.#copy(term, vault, row, policy))
    } catch (error) {
      const isInUse = error instanceof Refusal && inUse.has(error.code)
      await store.postpone(pool, row.id, row.turn, isInUse ? soonSecs : troubleSecs)
      if (!isInUse) throw error
    }
  }

  async #copy(term: Term, vault: string, row: store.DueRow, policy: Policy): Promise<void> {
    const { leadership, links } = this.#options
    const copyId = newId()
    const { id: desktopId, generation, turn, parent, hostId } = row
    const made = await links.command(
      hostId,
      'copy.make',
      { desktopId, generation, turn, copyId, vault, parent },
      { signal: term.signal, timeoutMs: copyMs },
    )
    this.#lastHost = hostId
    await leadership.transaction(async (tx) => {
      const isThere = await store.insert(tx, { id: copyId, vault, desktop: row, made })
      if (!isThere) return
      const taken = await store.takenOf(tx, desktopId)
      const stays = kept(taken, policy.keep)
      await store.forget(
        tx,
        taken.map(({ id }) => id).filter((id) => !stays.has(id)),
      )
      const data = { copy_id: copyId, kind: made.kind, size_bytes: made.sizeBytes, added_bytes: made.addedBytes }
      await noteOfDesktop(tx, desktopId, 'desktop.copied', data, true)
    })
  }
}

/** The desktop was woken, or does not exist there now. */
const inUse: ReadonlySet<RefusalCode> = new Set(['superseded', 'unknown_desktop', 'stale_turn', 'moving'])
