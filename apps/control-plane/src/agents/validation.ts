// Validates what a host sends against the contract, and describes the first error in one short sentence.
import { refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { z } from 'zod'

const maxChars = 300

/** The validated message. Otherwise logs the first error and refuses with it. */
export function validated<T>(what: string, schema: z.ZodType<T>, said: unknown, log: Log): T {
  const { success, data, error } = schema.safeParse(said)
  if (success) return data
  const why = firstIssue(what, error)
  log.warn({ why }, 'a message of a host was invalid')
  return refuse('invalid_request', why)
}

/** The first error, with the name of its field. */
export function firstIssue(what: string, { issues: [first] }: z.ZodError): string {
  return `${[what, ...(first?.path ?? [])].join('.')}: ${first?.message ?? 'invalid'}`.slice(0, maxChars)
}
