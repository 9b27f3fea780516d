// Which failures of a step may pass by themselves, so that the step is tried again. Knows no step.
import { factsOf, Refusal } from '@dormouse/contract'
import { isConnectionLost } from '../db/pool.ts'

/** `atFirst`: hosts may still be reconnecting to a new leader. Every refusal that the table does not retry is final. */
export function isTransient(error: unknown, atFirst: boolean): boolean {
  if (!(error instanceof Refusal)) return isConnectionLost(error)
  const { retried } = factsOf(error.code)
  return retried === 'always' || (atFirst && retried === 'while_hosts_return')
}
