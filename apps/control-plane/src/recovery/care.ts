// How care for a host fails: it is logged and comes round again. Knows nothing of what is cared for.
import { Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { isDatabaseAway } from '../db/pool.ts'

/** Runs the work; a change of leader, a lost link or database is no fault of it. Never rejects. */
export async function guarded(log: Log, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const passing = error instanceof Refusal && (error.code === 'not_leader' || error.code === 'host_unreachable')
    log[passing || isDatabaseAway(error) ? 'info' : 'error']({ err: error }, 'recovery was interrupted')
  }
}

/** Alarms that one look at a host raises; beyond, they are counted. */
const most = 20

/** The alarms of one look at one host: many of one kind are no more news than a few. */
export class Alarms {
  readonly #log: Log
  readonly #host: string
  #raised = 0

  constructor(log: Log, host: string) {
    this.#log = log
    this.#host = host
  }

  raise(facts: object, what: string): void {
    if (++this.#raised <= most) this.#log.error({ host: this.#host, ...facts, alarm: true }, what)
  }

  /** Tells how many were not shown. */
  close(): void {
    const left = this.#raised - most
    if (left > 0)
      this.#log.error({ host: this.#host, left, alarm: true }, 'a host gives rise to more alarms than are shown')
  }
}
