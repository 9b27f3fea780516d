// Size limits for data from other processes: lengths are checked before contents. Knows no message.
import { z } from 'zod'

/** Text that is shown and stored: truncated to the limit, with only characters that every log and database accepts. */
export const said = (mostChars: number) =>
  z.string().overwrite((words) =>
    words
      .slice(0, mostChars)
      .toWellFormed()
      .replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' '),
  )

/** Text that people read: 1 to `most` characters, none of them invisible. The document has lengths, and no pattern of one engine. */
export const printable = (most: number) =>
  z
    .string()
    .refine(
      (text) => text.length <= 2 * most && [...text].length <= most && text !== '' && !/\p{C}/u.test(text),
      `must be 1 to ${most} printable characters`,
    )
    .meta({ minLength: 1, maxLength: most })

/** A list of at most `most` items. Validation stops at the first bad one: a message for each of a million would take seconds. */
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

/** An object of at most `most` fields. */
export const recordOf = <T extends z.ZodType>(item: T, most: number) =>
  z
    .custom<Record<string, unknown>>(
      (given) => typeof given === 'object' && given !== null && Object.keys(given).length <= most,
      `must be an object of at most ${most} fields`,
    )
    .pipe(z.record(z.string().max(100), item))

/** Node's timers fire at once above this. */
const longestTimerMs = 2 ** 31 - 1

/** A duration for a timer; longer ones are cut to 24 days. */
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
