// The words after a command of ours: wrong ones are told in one sentence, without a stack. Knows no command.

/** What was typed cannot be meant; the message says which word. */
export class WrongWords extends Error {}

/** What `read` makes of the words; where they are wrong, says so and ends the process with 2. */
export function orExplain<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Error) || !isAboutWords(error)) throw error
    // Node's own goes on with advice that does not fit here.
    console.error(`${error.message.split('. ', 1)[0]}; --help shows the words.`)
    process.exit(2)
  }
}

function isAboutWords(error: Error & { code?: unknown }): boolean {
  return error instanceof WrongWords || String(error.code).startsWith('ERR_PARSE_ARGS_')
}
