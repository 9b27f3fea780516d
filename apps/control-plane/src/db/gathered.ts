// Gathers what many callers want to write within a moment, and writes it in one statement. Knows no table.
import { Batcher } from '@dormouse/process'
import { isDatabaseUnavailable } from './pool.ts'

/** One write at a time, so that two never wait for each other's rows. A caller that comes after a pause does not wait. */
export class Gathered<T, R> extends Batcher<T, R> {
  constructor(write: (items: T[]) => Promise<R[]>) {
    super(write, { most: 500, pauseMs: 100, isShared: isDatabaseUnavailable })
  }
}
