// Calls that wake the desktop that they need: which do so, and what their answers then tell.
import { z } from 'zod'
import { wakePath } from './operations.ts'

/** The header that decides for one call. */
export const wakeWishHeader = 'Dormouse-Wake'
export const wakeWish = z.enum(['allow', 'never'], 'must be `allow` or `never`')
export type WakeWish = z.infer<typeof wakeWish>

export const wokeJson = z.object({
  path: wakePath.nullable().describe('How it woke, as in the operation; null where that is not known'),
  ms: z.int().min(0).describe('How long this call has waited for it'),
})
export type WokeJson = z.infer<typeof wokeJson>

/** In the JSON answers of these calls. */
export const wokenJson = z
  .object({ woke: wokeJson.optional().describe('Present if the call has woken its desktop, or has waited for a wake') })
  .meta({ id: 'Woken' })

/** The same as a header, in all answers of these calls. */
export const wokeHeader = 'dormouse-woke'
export const wokeText = ({ path, ms }: WokeJson): string => `${path ? `path=${path}; ` : ''}ms=${ms}`
