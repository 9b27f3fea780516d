// Bounds of what other processes say: a length is looked at before what is inside. Knows nothing of what is said.
import { z } from 'zod'

/** Words that are shown and stored: cut where they are longer, and of characters that every log and database takes. */
export const said = (mostChars: number) =>
  z.string().overwrite((words) =>
    words
      .slice(0, mostChars)
      .toWellFormed()
      .replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' '),
  )

/** A list of at most so many. It is read up to its first bad item: nobody needs to hear of a million. */
export const listOf = <T extends z.ZodType>(item: T, most: number) =>
  z
    .custom<unknown[]>((given) => Array.isArray(given) && given.length <= most, `must be a list of at most ${most}`)
    .transform((given, context) => {
      const items: z.output<T>[] = []
      for (const [at, one] of given.entries()) {
        const { data, error } = item.safeParse(one)
        if (error) return refused(context, at, error)
        items.push(data)
      }
      return items
    })

/** Names and words by them, of at most so many. */
export const recordOf = <T extends z.ZodType>(item: T, most: number) =>
  z
    .custom<Record<string, unknown>>(
      (given) => typeof given === 'object' && given !== null && Object.keys(given).length <= most,
      `must be an object of at most ${most} fields`,
    )
    .pipe(z.record(z.string().max(100), item))

/** Timers end at once where they are asked for more. */
const longestTimerMs = 2 ** 31 - 1

/** A time that a timer can wait; more is as good as this, which is weeks. */
export const durationMs = z
  .int()
  .min(1)
  .overwrite((ms) => Math.min(ms, longestTimerMs))
export const durationSecs = z
  .int()
  .min(1)
  .overwrite((secs) => Math.min(secs, Math.floor(longestTimerMs / 2_000)))

function refused(context: z.core.$RefinementCtx, at: number, { issues }: z.ZodError): never {
  const [first] = issues
  context.issues.push({ code: 'custom', input: undefined, message: first!.message, path: [at, ...first!.path] })
  return z.NEVER
}
