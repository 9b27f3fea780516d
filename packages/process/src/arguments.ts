// Command-line arguments: a wrong one is reported in one sentence, without a stack. Knows no command.

/** An argument that cannot be used; the message names it. */
export class UsageError extends Error {}

/** Returns what `read` makes of the arguments. If they are wrong, prints why and ends the process with 2. */
export function readOrExit<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Error) || !isUsageError(error)) throw error
    // Node's own message goes on with advice that does not apply here.
    const [sentence = ''] = error.message.split('. ', 1)
    console.error(`${sentence.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}; see --help`)
    process.exit(2)
  }
}

function isUsageError(error: Error & { code?: unknown }): boolean {
  return error instanceof UsageError || String(error.code).startsWith('ERR_PARSE_ARGS_')
}
