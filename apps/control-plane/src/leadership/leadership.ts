// Who may change anything. At most one replica leads; the epoch in the database makes that safe, the rest makes it quick.
import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { refuse } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import type pg from 'pg'
import { openSession, type Pool, sqlState, transaction } from '../db/pool.ts'
import * as store from './store.ts'

export interface LeadershipOptions {
  pool: Pool
  databaseUrl: string
  replicaId: string
  leaseMs: number
  log: Log
  failpoints: Failpoints
}

/** A term of leadership: ends once, by loss or by choice, and never comes back. */
export interface Term {
  epoch: number
  /** Aborted the moment this replica no longer leads. */
  signal: AbortSignal
}

interface OwnTerm extends Term {
  end: () => void
  /** By this process's monotonic clock. */
  leaseEnds: number
}

interface Taken {
  epoch: number
  leaseEnds: number
}

interface Events {
  led: [term: Term]
  ended: [term: Term]
}

export class Leadership extends EventEmitter<Events> {
  readonly #options: LeadershipOptions
  readonly #stopping = new AbortController()
  #term: OwnTerm | undefined
  #contending: Promise<void> | undefined
  #leaderKnown = false
  /** Where agents and other replicas reach this one. */
  #url = ''

  constructor(options: LeadershipOptions) {
    super()
    this.#options = options
  }

  /** The present term, where this replica leads. */
  get term(): Term | undefined {
    return this.#term
  }

  /** Whether some replica is known to lead, for `/readyz`. */
  get leaderKnown(): boolean {
    return this.#term !== undefined || this.#leaderKnown
  }

  /** Whether this replica could end the sessions of one that is frozen, for `/readyz`. */
  mayTakeOver(): Promise<boolean> {
    return store.mayEndSessions(this.#options.pool)
  }

  /** Begins to contend, announcing this replica at the URL; returns at once. */
  start(url: string): void {
    this.#url = url
    this.#contending = this.#contend()
  }

  /** Gives leadership up, so that another takes over at once, and contends no more. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const term = this.#term
    this.#endTerm(term, 'stopping')
    const { pool, replicaId, log } = this.#options
    try {
      if (term) await store.giveUp(pool, term.epoch, replicaId)
      await store.withdraw(pool, replicaId)
    } catch (error) {
      log.warn({ err: error }, 'leadership could not be given up; its lease will run out')
    }
    await this.#contending
  }

  /** A transaction that commits only while this replica leads; otherwise nothing happens and 503 is answered. */
  async transaction<T>(work: (tx: pg.PoolClient, term: Term) => Promise<T>): Promise<T> {
    const term = this.#term
    if (!term || performance.now() > term.leaseEnds) return this.#refuse()
    return transaction(
      this.#options.pool,
      (tx) => work(tx, term),
      store.fenceStatement(term.epoch, this.#options.replicaId),
      ([, fence]) => {
        if (fence?.rowCount === 1) return
        this.#endTerm(term, 'fenced')
        this.#refuse()
      },
    )
  }

  /** Refuses unless this replica leads: the early answer, before a mutation looks at anything. */
  require(): void {
    if (!this.#term || performance.now() > this.#term.leaseEnds) this.#refuse()
  }

  #refuse(): never {
    return refuse(
      'not_leader',
      'this replica does not lead; send the request again, to any replica; the one that leads takes it',
    )
  }

  async #contend(): Promise<void> {
    const { databaseUrl, log } = this.#options
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#contendOnce(await openSession(databaseUrl, 'leadership'))
      } catch (error) {
        if (!this.#stopping.signal.aborted) log.warn({ err: error }, 'contending for leadership was interrupted')
      }
      await this.#pause(200)
    }
  }

  async #contendOnce(session: pg.Client): Promise<void> {
    const { pool, log } = this.#options
    let backend: store.Backend | undefined
    try {
      backend = await store.backendOf(session)
      await this.#contendWith(session)
    } finally {
      await store.leave(pool, session, backend).catch(() => log.debug('the leadership session had ended already'))
    }
  }

  /** One session's life: wait for the lock or for the lease to run out, lead while it lasts. */
  async #contendWith(session: pg.Client): Promise<void> {
    const { log } = this.#options
    const lost = Promise.withResolvers<never>()
    lost.promise.catch(() => log.debug('the leadership session is gone'))
    session.on('error', lost.reject)
    session.on('end', () => lost.reject(new Error('the leadership session ended')))
    this.#stopping.signal.addEventListener('abort', () => lost.reject(new Error('stopping')), { once: true })

    this.#stopping.signal.throwIfAborted()
    const locked = store.awaitLock(session).then(() => 'locked' as const)
    locked.catch(() => log.debug('the leader lock was not had'))
    const watching = new AbortController()
    try {
      while ((await Promise.race([locked, lost.promise, this.#watchLease(watching.signal)])) === 'expired') {
        await this.#force()
      }
    } finally {
      watching.abort()
    }
    // One who stops has no business with the lead, least of all to take it from the one who has it.
    this.#stopping.signal.throwIfAborted()
    const taken = await this.#take(session)
    const term = this.#begin(taken)
    await Promise.race([this.#lead(session, term), lost.promise]).finally(() =>
      this.#endTerm(term, 'the session was lost'),
    )
  }

  /** Answers `expired` once the leader's lease has run out, however long that takes. */
  async #watchLease(signal: AbortSignal): Promise<'expired' | 'abandoned'> {
    // The first look only tells: right after the start the lock may well be had without force.
    await this.#look()
    for (;;) {
      await this.#pause(this.#options.leaseMs / 4, signal)
      if (signal.aborted || this.#stopping.signal.aborted) return 'abandoned'
      if ((await this.#look()).expired) return 'expired'
    }
  }

  async #look(): Promise<store.LeadershipRow> {
    const { pool, replicaId } = this.#options
    await store.announce(pool, replicaId, this.#url)
    const row = await store.read(pool)
    this.#leaderKnown = !row.expired
    return row
  }

  /** The leader is silent but its session still holds the lock: it is frozen, or cut off. Its sessions are ended. */
  async #force(): Promise<void> {
    const { ended, others } = await store.endBlockers(this.#options.pool)
    const { log } = this.#options
    if (ended > 0) log.warn({ ended }, 'the lease ran out; the sessions that held leadership were ended')
    if (others.length > 0)
      log.warn({ others }, 'another program holds a lock on leadership, so no replica can lead; end its session')
  }

  async #take(session: pg.Client): Promise<Taken> {
    const { replicaId, leaseMs, pool, log } = this.#options
    for (;;) {
      this.#stopping.signal.throwIfAborted()
      const sent = performance.now()
      try {
        return { epoch: await store.take(session, replicaId, leaseMs), leaseEnds: sent + leaseMs }
      } catch (error) {
        if (sqlState(error) !== '55P03') throw error
        log.warn('an open transaction of the old leader is in the way')
        if ((await store.read(pool)).expired) await this.#force()
      }
    }
  }

  /** Counts the lease by the monotonic clock, from when it or a renewal was asked for. */
  #begin({ epoch, leaseEnds }: Taken): OwnTerm {
    const ended = new AbortController()
    this.#term = { epoch, signal: ended.signal, end: () => ended.abort(), leaseEnds }
    this.#options.log.info({ epoch }, 'leading')
    return this.#term
  }

  /** Leads until the term ends, also where a renewal never answers. */
  async #lead(session: pg.Client, term: OwnTerm): Promise<void> {
    const { leaseMs } = this.#options
    const ended = new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve(), { once: true }))
    const late = () => performance.now() > term.leaseEnds && this.#endTerm(term, 'the lease ran out')
    const guard = setInterval(late, leaseMs / 10)
    try {
      void this.#announce()
      this.emit('led', term)
      while (!term.signal.aborted) {
        await this.#pause(leaseMs / 4, term.signal)
        await Promise.race([this.#renew(session, term), ended])
      }
    } finally {
      clearInterval(guard)
    }
  }

  /**
   * On the session that holds the lock, so that no crowd at the pool is in its way. A renewal that fails is tried again
   * until the lease runs out: a slow moment of the database ends no term.
   */
  async #renew(session: pg.Client, term: OwnTerm): Promise<void> {
    const { replicaId, leaseMs, log, failpoints } = this.#options
    if (term.signal.aborted) return
    try {
      await failpoints.hit('leadership.before-renew')
      if (term.signal.aborted) return
      const sent = performance.now()
      if (!(await store.renew(session, term.epoch, replicaId, leaseMs)))
        return this.#endTerm(term, 'another epoch began')
      term.leaseEnds = sent + leaseMs
      void this.#announce()
    } catch (error) {
      log.warn({ err: error }, 'the lease could not be renewed')
    }
  }

  /** What agents and other replicas read; leadership does not hang on it. */
  async #announce(): Promise<void> {
    const { pool, replicaId, log } = this.#options
    await store
      .announce(pool, replicaId, this.#url)
      .catch((error) => log.warn({ err: error }, 'this replica could not be announced'))
  }

  /** Ends this term once, and no other: whoever speaks of it may be late. */
  #endTerm(term: OwnTerm | undefined, why: string): void {
    if (!term || term.signal.aborted) return
    if (this.#term === term) this.#term = undefined
    this.#options.log.info({ epoch: term.epoch, why }, 'no longer leading')
    term.end()
    this.emit('ended', term)
  }

  async #pause(ms: number, also?: AbortSignal): Promise<void> {
    const signals = also ? [this.#stopping.signal, also] : [this.#stopping.signal]
    await sleep(ms, undefined, { signal: AbortSignal.any(signals), ref: false }).catch(() => undefined)
  }
}
