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
  /** Where agents and other replicas reach this one. */
  url: string
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
  #term: (Term & { end: () => void; leaseEnds: number }) | undefined
  #contending: Promise<void> | undefined
  #leaderKnown = false

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

  /** Begins to contend; returns at once. */
  start(): void {
    this.#contending = this.#contend()
  }

  /** Gives leadership up, so that another takes over at once, and contends no more. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const term = this.#term
    this.#endTerm('stopping')
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
        this.#endTerm('fenced')
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
      let session: pg.Client | undefined
      try {
        session = await openSession(databaseUrl, 'leadership')
        await this.#contendWith(session)
      } catch (error) {
        if (!this.#stopping.signal.aborted) log.warn({ err: error }, 'contending for leadership was interrupted')
      } finally {
        if (session)
          await store
            .leave(this.#options.pool, session)
            .catch(() => log.debug('the leadership session had ended already'))
      }
      await this.#pause(200)
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
    await Promise.race([this.#lead(taken), lost.promise]).finally(() => this.#endTerm('the session was lost'))
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
    const { pool, replicaId, url } = this.#options
    await store.announce(pool, replicaId, url)
    const row = await store.read(pool)
    this.#leaderKnown = !row.expired
    return row
  }

  /** The leader is silent but its session still holds the lock: it is frozen, or cut off. Its sessions are ended. */
  async #force(): Promise<void> {
    const ended = await store.endBlockers(this.#options.pool)
    this.#options.log.warn({ ended }, 'the lease ran out; the sessions that held leadership were ended')
  }

  async #take(session: pg.Client): Promise<Taken> {
    const { replicaId, leaseMs, pool, log } = this.#options
    for (;;) {
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

  /** Leads until the lease cannot be renewed; counts by the monotonic clock from when it or a renewal was asked for. */
  async #lead({ epoch, leaseEnds }: Taken): Promise<void> {
    const { pool, replicaId, leaseMs, url, log, failpoints } = this.#options
    const ended = new AbortController()
    const term = { epoch, signal: ended.signal, end: () => ended.abort(), leaseEnds }
    this.#term = term
    log.info({ epoch }, 'leading')
    const guard = setInterval(
      () => performance.now() > term.leaseEnds && this.#endTerm('the lease ran out'),
      leaseMs / 10,
    )
    try {
      await store.announce(pool, replicaId, url)
      this.emit('led', term)
      while (!term.signal.aborted) {
        await this.#pause(leaseMs / 4, term.signal)
        if (term.signal.aborted) return
        await failpoints.hit('leadership.before-renew')
        await this.#renew(term)
      }
    } finally {
      clearInterval(guard)
    }
  }

  /** A renewal that fails is tried again until the lease runs out: a slow moment of the database ends no term. */
  async #renew(term: { epoch: number; leaseEnds: number }): Promise<void> {
    const { pool, replicaId, leaseMs, url, log } = this.#options
    const sent = performance.now()
    try {
      if (!(await store.renew(pool, term.epoch, replicaId, leaseMs))) return this.#endTerm('another epoch began')
      term.leaseEnds = sent + leaseMs
      await store.announce(pool, replicaId, url)
    } catch (error) {
      log.warn({ err: error }, 'the lease could not be renewed')
    }
  }

  #endTerm(why: string): void {
    const term = this.#term
    if (!term) return
    this.#term = undefined
    this.#options.log.info({ epoch: term.epoch, why }, 'no longer leading')
    term.end()
    this.emit('ended', term)
  }

  async #pause(ms: number, also?: AbortSignal): Promise<void> {
    const signals = also ? [this.#stopping.signal, also] : [this.#stopping.signal]
    await sleep(ms, undefined, { signal: AbortSignal.any(signals), ref: false }).catch(() => undefined)
  }
}
