// Notices between replicas that something was committed. Postgres' NOTIFY takes a lock of the whole server at each commit that
// has one, so it is in no transaction of ours: the replica that has committed sends it afterwards, a few times a second. Notices
// may be lost; readers also poll.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import { onCommit } from '../db/commits.ts'
import { inLane } from '../db/lanes.ts'
import { openSession, type Pool } from '../db/pool.ts'

export interface CommitNoticesOptions {
  pool: Pool
  databaseUrl: string
  log: Log
}

const channel = 'events_committed'
/** The shortest time between two notices to other replicas. */
const pauseMs = 20
const reconnectMs = 1_000

export class CommitNotices {
  readonly #options: CommitNoticesOptions
  readonly #closing = new AbortController()
  #listener: () => void = () => undefined
  #listening: Promise<void> | undefined
  #session: pg.Client | undefined
  #sending = false
  #again = false

  constructor(options: CommitNoticesOptions) {
    this.#options = options
    onCommit(options.pool, () => {
      this.#listener()
      this.#again = true
      if (!this.#sending) void this.#send()
    })
  }

  /** Calls back after commits of this replica and, once `listen` was called, of the others. */
  onNotice(listener: () => void): void {
    this.#listener = listener
  }

  /** Listens for the notices of other replicas from now on. */
  listen(): void {
    this.#listening ??= this.#listen()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#session?.end().catch(() => undefined)
    await this.#listening
  }

  /** One at a time. A failure is as good as a lost notice. */
  async #send(): Promise<void> {
    this.#sending = true
    const { signal } = this.#closing
    while (this.#again && !signal.aborted) {
      this.#again = false
      await inLane('work', () => this.#options.pool.query({ name: 'events-notify', text: `notify ${channel}` })).catch(
        () => undefined,
      )
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
    this.#sending = false
  }

  async #listen(): Promise<void> {
    const { databaseUrl, log } = this.#options
    while (!this.#closing.signal.aborted) {
      try {
        const session = await openSession(databaseUrl, 'events')
        this.#session = session
        const ended = new Promise((resolve) => session.once('end', resolve))
        session.on('notification', () => this.#listener())
        await session.query(`listen ${channel}`)
        // What was committed before is not announced again.
        this.#listener()
        if (this.#closing.signal.aborted) await session.end()
        await ended
      } catch (err) {
        log.debug({ err }, 'the notices of other replicas cannot be heard; polling')
      }
      await sleep(reconnectMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined)
    }
  }
}
