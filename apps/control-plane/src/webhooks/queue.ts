// The queue of webhooks that have something to send: one job of graphile-worker for each, due when its next delivery is. Runs
// while this replica leads, from the first webhook on; its tables are in a schema of their own. Knows no delivery.
import type { Log } from '@dormouse/process'
import type { Runner } from 'graphile-worker'
import { type Db, openPool, type Pool } from '../db/pool.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'

export interface QueueOptions {
  leadership: Leadership
  databaseUrl: string
  log: Log
  /** Webhooks that are served at once. */
  concurrency: number
  /** A job that is due later is found within this time. */
  pollMs: number
  serve(webhookId: string, term: Term): Promise<void>
  /** Jobs with one of these flags are left for now. */
  forbidden(): string[]
}

const schema = 'webhook_jobs'
/** One listens, the others take jobs and settle them. */
const connections = 3
const task = 'serve'

/** What the queue needs to know of a webhook. */
export interface Job {
  webhookId: string
  orgId: string
  failing: boolean
  /** In milliseconds from now; 0 for at once. */
  inMs: number
}

export const orgFlag = (orgId: string): string => `org:${orgId}`
export const failingFlag = 'failing'

interface Open {
  pool: Pool
  runner: Runner
}

export class WebhookQueue {
  readonly #options: QueueOptions
  #open: { term: Term; opened: Promise<Open> } | undefined
  #closing: Promise<void> = Promise.resolve()

  constructor(options: QueueOptions) {
    this.#options = options
    options.leadership.on('ended', () => this.#close())
  }

  /** Makes the queue's tables and takes jobs, for this term. Idempotent. */
  async start(term: Term): Promise<void> {
    if (this.#open?.term !== term) {
      this.#close()
      const opened = this.#closing.then(() => this.#start(term))
      this.#open = { term, opened }
      opened.catch(() => {
        if (this.#open?.opened === opened) this.#open = undefined
      })
    }
    await this.#open!.opened
  }

  /** Resolves once no job runs any more. */
  async idle(): Promise<void> {
    this.#close()
    await this.#closing
  }

  #close(): void {
    const open = this.#open
    this.#open = undefined
    if (!open) return
    const stop = async () => {
      const { pool, runner } = await open.opened
      await runner.stop().catch((err) => this.#options.log.debug({ err }, 'the queue of webhooks had stopped already'))
      await pool.end()
    }
    this.#closing = Promise.all([this.#closing, stop().catch(() => undefined)]).then(() => undefined)
  }

  async #start(term: Term): Promise<Open> {
    const { databaseUrl, log, concurrency, pollMs, serve, forbidden } = this.#options
    // Only replicas that lead while there is a webhook pay for it.
    const { Logger, run, runMigrations } = await import('graphile-worker')
    const logger = new Logger(() => (level, message) => {
      if (level === 'error') log.warn({ queue: message.split('\n')[0] }, 'the queue of webhooks reports a problem')
      else log.trace({ queue: message }, 'the queue of webhooks')
    })
    const pool = openPool(databaseUrl, connections, (err) => log.warn({ err }, 'an idle database connection was lost'))
    try {
      // Without a batch, a job whose end cannot be stored is an unhandled rejection, and its end is not awaited by `stop`.
      const preset = { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } }
      const shared = { pgPool: pool, schema, logger, noHandleSignals: true, preset }
      await runMigrations(shared)
      // No other replica takes jobs now: what is locked was left behind. A frozen one can record nothing.
      await pool.query(
        `select ${schema}.force_unlock_workers(array(
           select distinct locked_by from ${schema}.jobs where locked_by is not null))`,
      )
      const runner = await run({
        ...shared,
        concurrency,
        pollInterval: pollMs,
        forbiddenFlags: forbidden,
        taskList: {
          [task]: async (payload) => {
            if (!term.signal.aborted) await serve((payload as { webhookId: string }).webhookId, term)
          },
        },
        parsedCronItems: [],
      })
      runner.promise.catch((err) => log.warn({ err }, 'the queue of webhooks has stopped; it will start again'))
      runner.events.once('stop', () => {
        if (this.#open?.term === term && !term.signal.aborted) this.#close()
      })
      return { pool, runner }
    } catch (error) {
      await pool.end()
      throw error
    }
  }
}

/** Queues these webhooks, in the caller's transaction. One that is queued already gets the new time, unless it `keepsTime`. */
export async function enqueue(db: Db, jobs: Job[], keepsTime = false): Promise<void> {
  if (jobs.length === 0) return
  await db.query({
    name: 'webhooks-enqueue',
    text: `select count(*) from ${schema}.add_jobs(array(
             select row('${task}', json_build_object('webhookId', "webhookId"), null,
                 clock_timestamp() + "inMs" * interval '1 millisecond', null, "webhookId", null, flags)::${schema}.job_spec
             from jsonb_to_recordset($1::jsonb) as made("webhookId" text, flags text[], "inMs" float8)), $2)`,
    values: [
      JSON.stringify(
        jobs.map(({ webhookId, orgId, failing, inMs }) => ({
          webhookId,
          flags: [orgFlag(orgId), ...(failing ? [failingFlag] : [])],
          inMs,
        })),
      ),
      keepsTime,
    ],
  })
}
