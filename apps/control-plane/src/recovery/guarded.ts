// How recovery of a host fails: errors are logged and the next run retries. Knows nothing of what is recovered.
import { Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { isDatabaseUnavailable } from '../db/pool.ts'

/** Runs the work and logs its error: as `info` where leader, link or database were lost, otherwise as `error`. Never rejects. */
export async function guarded(log: Log, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const passing = error instanceof Refusal && (error.code === 'not_leader' || error.code === 'host_unreachable')
    log[passing || isDatabaseUnavailable(error) ? 'info' : 'error'](
      { err: error },
      'recovery was interrupted; it will run again',
    )
  }
}

/** Alarms logged in one comparison with a host. Further ones are only counted. */
const most = 20

/** The alarms of one comparison with a host, limited so that they cannot flood the log. */
export class Alarms {
  readonly #log: Log
  readonly #host: string
  #raised = 0

  constructor(log: Log, host: string) {
    this.#log = log
    this.#host = host
  }

  raise(facts: object, what: string): void {
    if (++this.#raised <= most)
      this.#log.error({ host: this.#host, ...facts, alarm: true, alarmKind: 'inventory' }, what)
  }

  /** Logs how many were not logged. */
  close(): void {
    const left = this.#raised - most
    if (left > 0)
      this.#log.error(
        { host: this.#host, left, alarm: true, alarmKind: 'inventory' },
        'more alarms were raised for a host than are logged',
      )
  }
}
