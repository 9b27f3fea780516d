// Quoting for shell scripts.

/** The text as one argument of a POSIX shell, whatever is in it. */
export const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
