// Collects the rows that many callers write within a moment, and writes them in one statement. Knows no table.
import { Batcher } from '@dormouse/process'
import { isDatabaseUnavailable } from './pool.ts'

/** Runs one write at a time, so that two never wait for each other's rows. A call after a pause does not wait. */
export class Gathered<T, R> extends Batcher<T, R> {
  constructor(write: (items: T[]) => Promise<R[]>) {
    super(write, { most: 500, pauseMs: 100, isShared: isDatabaseUnavailable })
  }
}
