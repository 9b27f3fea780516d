// Elects the one replica that may change anything. The epoch in the database makes that safe; locks and leases make it fast.
import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { refuse } from '@dormouse/contract'
import { type Failpoints, type Log, StartError } from '@dormouse/process'
import type pg from 'pg'
import { isGuardFailure } from '../db/guards.ts'
import { explained, remindingly } from '../db/opening.ts'
import { type Db, openSession, type Pool, sqlState } from '../db/pool.ts'
import { type Fence, type Tx, transaction, transactionAtOnce } from '../db/transactions.ts'
import * as store from './store.ts'

export interface LeadershipOptions {
  pool: Pool
  databaseUrl: string
  replicaId: string
  leaseMs: number
  log: Log
  failpoints: Failpoints
}

/** One term of leadership. It ends once, by loss or by choice, and never resumes. */
export interface Term {
  epoch: number
  /** Aborted as soon as this replica no longer leads. */
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
  #outdated = false
  /** The address at which agents and other replicas reach this one. */
  #url = ''

  constructor(options: LeadershipOptions) {
    super()
    this.#options = options
  }

  /** The current term; undefined if this replica does not lead. */
  get term(): Term | undefined {
    return this.#term
  }

  /** Whether any replica is known to lead, for `/readyz`. */
  get leaderKnown(): boolean {
    return this.#term !== undefined || this.#leaderKnown
  }

  /** Whether the database's schema is of a release with which this one may not change anything. */
  get outdated(): boolean {
    return this.#outdated
  }

  /** Whether this replica is allowed to end the sessions of a frozen leader, for `/readyz`. */
  mayTakeOver(): Promise<boolean> {
    return store.mayEndSessions(this.#options.pool)
  }

  /** Begins to contend for leadership and announces this replica at the URL. Returns at once. */
  start(url: string): void {
    this.#url = url
    this.#contending = this.#contend()
  }

  /** Gives leadership up, so that another replica takes over at once, and stops contending. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const term = this.#term
    this.#endTerm(term, 'stopping')
    const { pool, replicaId, log } = this.#options
    try {
      if (term) await store.giveUp(pool, term.epoch, replicaId)
      await store.withdraw(pool, replicaId)
    } catch (error) {
      log.warn({ err: error }, 'leadership could not be given up; its lease will expire')
    }
    await this.#contending
  }

  /** Runs a transaction that commits only while this replica leads. Otherwise nothing is changed, and it refuses with 503. */
  async transaction<T>(work: (tx: Tx, term: Term) => Promise<T>): Promise<T> {
    const term = this.#ownTerm()
    return transaction(this.#options.pool, (tx) => work(tx, term), { fence: this.#fence(term) })
  }

  /** The same in one round trip: `work` sends all statements before it waits for the first, and decides nothing. */
  async transactionAtOnce<T>(work: (tx: Db, term: Term) => Promise<T>): Promise<T> {
    const term = this.#ownTerm()
    return transactionAtOnce(this.#options.pool, (tx) => work(tx, term), this.#fence(term))
  }

  #ownTerm(): OwnTerm {
    const term = this.#term
    return term && performance.now() <= term.leaseEnds ? term : this.#refuse()
  }

  #fence(term: OwnTerm): Fence {
    return {
      statement: store.fenceStatement(term.epoch, this.#options.replicaId),
      failed: (error) => {
        if (!isGuardFailure(error)) throw error
        this.#endTerm(term, 'fenced')
        return this.#refuse()
      },
    }
  }

  /** Refuses unless this replica leads. Called before a mutation reads anything; the fence decides in the end. */
  require(): void {
    if (!this.#term || performance.now() > this.#term.leaseEnds) this.#refuse()
  }

  #refuse(): never {
    if (this.#outdated) refuse('replica_outdated')
    return refuse('not_leader', 'this replica is not the leader; send the request again, to any replica')
  }

  async #contend(): Promise<void> {
    const { databaseUrl, leaseMs, log } = this.#options
    const interrupted = 'contending for leadership was interrupted; retrying'
    const say = remindingly((why) => log.warn({ why }, interrupted))
    while (!this.#stopping.signal.aborted) {
      try {
        if (!(await this.#look()).outdated) await this.#contendOnce(await openSession(databaseUrl, 'leadership'))
      } catch (error) {
        const why = explained(error)
        if (this.#stopping.signal.aborted) continue
        if (why instanceof StartError) say(why.message)
        else log.warn({ err: error }, interrupted)
      }
      await this.#pause(this.#outdated ? leaseMs / 4 : 200)
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

  /** The life of one session: wait for the lock or for the lease to expire, then lead as long as the session lasts. */
  async #contendWith(session: pg.Client): Promise<void> {
    const { log } = this.#options
    const lost = Promise.withResolvers<never>()
    lost.promise.catch(() => log.debug('the leadership session was lost'))
    session.on('error', lost.reject)
    session.on('end', () => lost.reject(new Error('the leadership session ended')))
    this.#stopping.signal.addEventListener('abort', () => lost.reject(new Error('stopping')), { once: true })

    this.#stopping.signal.throwIfAborted()
    const locked = store.awaitLock(session).then(() => 'locked' as const)
    locked.catch(() => log.debug('the leader lock was not acquired'))
    const watching = new AbortController()
    try {
      while ((await Promise.race([locked, lost.promise, this.#watchLease(watching.signal)])) === 'expired') {
        await this.#force()
      }
    } finally {
      watching.abort()
    }
    // A replica that is stopping must not take leadership, least of all from a healthy leader.
    this.#stopping.signal.throwIfAborted()
    const taken = await this.#take(session)
    if (!taken) return
    const term = this.#begin(taken)
    await Promise.race([this.#lead(session, term), lost.promise]).finally(() =>
      this.#endTerm(term, 'the session was lost'),
    )
  }

  /** Returns `expired` once the leader's lease has expired, however long that takes. */
  async #watchLease(signal: AbortSignal): Promise<'expired' | 'abandoned'> {
    // The first look decides nothing: right after the start the lock is often free.
    await this.#look()
    for (;;) {
      await this.#pause(this.#options.leaseMs / 4, signal)
      if (signal.aborted || this.#stopping.signal.aborted) return 'abandoned'
      if ((await this.#look()).expired) return 'expired'
    }
  }

  async #look(): Promise<store.LeadershipRow> {
    const { pool, replicaId, log } = this.#options
    await store.announce(pool, replicaId, this.#url)
    const row = await store.read(pool)
    this.#leaderKnown = !row.expired
    if (row.outdated !== this.#outdated) {
      this.#outdated = row.outdated
      if (row.outdated) log.error('the database has the schema of a newer release; this replica serves reads only')
      else log.info('this release may change things again')
    }
    return row
  }

  /** The lease has expired but a session still holds the lock: the leader is frozen or disconnected. Ends its sessions. */
  async #force(): Promise<void> {
    const { ended, others } = await store.endBlockers(this.#options.pool)
    const { log } = this.#options
    if (ended > 0) log.warn({ ended }, 'the lease expired; the sessions that held leadership were ended')
    if (others.length > 0)
      log.warn({ others }, 'another program holds a lock on leadership, so no replica can lead; end its session')
  }

  /** Undefined if this release may not lead. */
  async #take(session: pg.Client): Promise<Taken | undefined> {
    const { replicaId, leaseMs, pool, log } = this.#options
    for (;;) {
      this.#stopping.signal.throwIfAborted()
      const sent = performance.now()
      try {
        const epoch = await store.take(session, replicaId, leaseMs)
        return epoch === undefined ? undefined : { epoch, leaseEnds: sent + leaseMs }
      } catch (error) {
        if (sqlState(error) !== '55P03') throw error
        log.warn('waiting for an open transaction of the old leader')
        if ((await store.read(pool)).expired) await this.#force()
      }
    }
  }

  /** Measures the lease by the monotonic clock, from the moment at which it or its renewal was requested. */
  #begin({ epoch, leaseEnds }: Taken): OwnTerm {
    const ended = new AbortController()
    this.#term = { epoch, signal: ended.signal, end: () => ended.abort(), leaseEnds }
    this.#options.log.info({ epoch }, 'leading')
    return this.#term
  }

  /** Leads until the term ends, even if a renewal never answers. */
  async #lead(session: pg.Client, term: OwnTerm): Promise<void> {
    const { leaseMs } = this.#options
    const ended = new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve(), { once: true }))
    const late = () => performance.now() > term.leaseEnds && this.#endTerm(term, 'the lease expired')
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
   * Renews on the session that holds the lock, so that a busy pool does not delay it. A failed renewal is retried until the
   * lease expires, so that a slow moment of the database ends no term.
   */
  async #renew(session: pg.Client, term: OwnTerm): Promise<void> {
    const { replicaId, leaseMs, log, failpoints } = this.#options
    if (term.signal.aborted) return
    try {
      await failpoints.hit('leadership.before-renew')
      if (term.signal.aborted) return
      const sent = performance.now()
      if (!(await store.renew(session, term.epoch, replicaId, leaseMs)))
        return this.#endTerm(term, 'another epoch began, or the schema is of a newer release')
      term.leaseEnds = sent + leaseMs
      void this.#announce()
    } catch (error) {
      log.warn({ err: error }, 'the lease could not be renewed; retrying until it expires')
    }
  }

  /** Agents and other replicas read it. Leadership does not depend on it. */
  async #announce(): Promise<void> {
    const { pool, replicaId, log } = this.#options
    await store
      .announce(pool, replicaId, this.#url)
      .catch((error) => log.warn({ err: error }, 'this replica could not be announced'))
  }

  /** Ends this term, once. A late call cannot end a later term. */
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
