// Names and labels of desktops: what they may be.
import { z } from 'zod'
import { isId } from './ids.ts'
import {
  labelKeyMaxLength,
  labelKeyPattern,
  labelsMax,
  labelValueMaxLength,
  parseSelector,
  type Selector,
  SelectorError,
  selectorMaxLength,
  selectorText,
} from './selectors.ts'

const nameForm = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/

/** Lower case, because host names are, and no id, so that a name and an id are never mistaken for each other. */
export const desktopName = z
  .string()
  .refine(
    (text) => nameForm.test(text) && !isId(text),
    'must be 1 to 64 lower-case letters, digits, `-`, `_` or `.`, begin and end with a letter or digit, and not have the form of an id',
  )
  .meta({ minLength: 1, maxLength: 64, pattern: nameForm.source })

const isValue = (given: unknown): boolean =>
  typeof given === 'string' &&
  given.length <= 2 * labelValueMaxLength &&
  [...given].length <= labelValueMaxLength &&
  !/\p{C}/u.test(given)

const mapOf = <T extends z.ZodType>(value: T, why: string, isOk: (given: unknown) => boolean) =>
  z
    .custom<Record<string, unknown>>(
      (given) => typeof given === 'object' && given !== null && !Array.isArray(given),
      'must be an object of keys and values',
    )
    .superRefine((given, context) => {
      const keys = Object.keys(given)
      if (keys.length > labelsMax) return context.addIssue(`must have at most ${labelsMax} keys`)
      for (const key of keys) {
        const path = [key.slice(0, labelKeyMaxLength)]
        if (!labelKeyPattern.test(key)) {
          const message = `must have a key of 1 to ${labelKeyMaxLength} letters, digits, \`.\`, \`-\`, \`_\` or \`/\` that begins and ends with a letter or digit`
          return context.addIssue({ code: 'custom', message, path })
        }
        if (!isOk(given[key])) return context.addIssue({ code: 'custom', message: why, path })
      }
    })
    .pipe(z.record(z.string(), value))

const valueForm = `must be a string of at most ${labelValueMaxLength} printable characters`

/** The labels of a new desktop. */
export const labels = mapOf(z.string().meta({ maxLength: labelValueMaxLength }), valueForm, isValue).meta({
  maxProperties: labelsMax,
})

/** Labels to set, and null for those to remove. */
export const labelChanges = mapOf(
  z.string().meta({ maxLength: labelValueMaxLength }).nullable(),
  `${valueForm}, or null to remove the label`,
  (given) => given === null || isValue(given),
)

/** A selector, written such as `team=qa,env in (a,b),!owner`. */
export const selector = z
  .string()
  .transform((text, context): Selector => {
    try {
      const parsed = parseSelector(text)
      // It is kept in this form, which may be longer.
      if (selectorText(parsed).length <= selectorMaxLength) return parsed
      context.addIssue(`must have at most ${selectorMaxLength} characters with a space before each bracket`)
      return z.NEVER
    } catch (error) {
      if (!(error instanceof SelectorError)) throw error
      context.addIssue(error.message)
      return z.NEVER
    }
  })
  .meta({ type: 'string', maxLength: selectorMaxLength })
