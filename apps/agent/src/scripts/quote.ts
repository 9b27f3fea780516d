// Texts of callers as arguments of programs in a guest.
import { refuse } from '@dormouse/contract'

/** The text as an argument: it ends at a NUL, and what follows would be another one. The control plane lets none through. */
export const argument = (text: string): string =>
  text.includes('\0') ? refuse('invalid_request', 'a path or another argument must not contain NUL') : text

/** The text as one argument of a POSIX shell, whatever is in it. */
export const quote = (text: string): string => `'${argument(text).replaceAll("'", `'\\''`)}'`
