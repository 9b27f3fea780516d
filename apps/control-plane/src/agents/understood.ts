// What a host says, as far as it fits the contract. What is wrong with it is told in one short sentence.
import { refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { z } from 'zod'

const maxChars = 300

/** What was said; refuses with the first thing that is wrong, and tells it to the operator. */
export function understood<T>(what: string, schema: z.ZodType<T>, said: unknown, log: Log): T {
  const { success, data, error } = schema.safeParse(said)
  if (success) return data
  const why = wrongWith(what, error)
  log.warn({ why }, 'a host was not understood')
  return refuse('invalid_request', why)
}

/** The first thing that is wrong, by the name of its field. */
export function wrongWith(what: string, { issues: [first] }: z.ZodError): string {
  return `${[what, ...(first?.path ?? [])].join('.')}: ${first?.message ?? 'not understood'}`.slice(0, maxChars)
}
