// Why an operation failed, and whether that may pass; or that it is no longer ours.
import { factsOf, messageOf, Refusal, type RefusalCode } from '@dormouse/contract'
import { isConnectionLost } from '../db/pool.ts'

export interface Failure {
  code: RefusalCode
  /** For the customer: what happened, whether anything was lost, what to do. Names no host and no hypervisor. */
  detail: string
  /** For operators: the error as it was reported. */
  cause: string
}

/** The failure of an operation whose step threw this. `Abandoned` is no failure: it is thrown on. */
export function failureFrom(error: unknown, kind: string): Failure {
  if (error instanceof Abandoned) throw error
  if (error instanceof Refusal)
    return { code: error.code, cause: error.extra.cause ?? error.detail, detail: messageOf(error.code) }
  const cause = `the control plane failed during ${kind}: ${(error as Error).message}`
  return { code: 'internal', cause, detail: messageOf('internal') }
}

/** The operation is no longer ours: leadership ended, or a later request superseded it. Nothing is written. */
export class Abandoned extends Error {}

/**
 * Whether a failure of a step may pass by itself. `atFirst`: hosts may still be reconnecting to a new leader. Every refusal that
 * the table does not retry is final.
 */
export function isTransient(error: unknown, atFirst: boolean): boolean {
  if (!(error instanceof Refusal)) return isConnectionLost(error)
  const { retried } = factsOf(error.code)
  return retried === 'always' || (atFirst && retried === 'while_hosts_return')
}
