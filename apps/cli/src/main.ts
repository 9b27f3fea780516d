// The process: signals, pipes and exit codes around the program.
import { CommanderError } from 'commander'
import { createContext } from './context.ts'
import { type About, CliError, type Explanation, exitCodes, explain, factsOf } from './failures.ts'
import { createProgram } from './program.ts'
import { openTerminal, type Terminal } from './terminal.ts'

const brokenPipeExit = 141

/** Runs the command in the process's arguments and sets the process's exit code. */
export async function main(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', onPipeError)
  const terminal = openTerminal(interruptible())
  const context = createContext(terminal, process.env, [process.cwd(), import.meta.dirname])
  try {
    await createProgram(context).parseAsync()
  } catch (error) {
    process.exitCode = fail(terminal, error, context.about)
  }
}

/** Ends like any program whose reader went away: at once, without a word. */
function onPipeError(error: Error & { code?: string }): void {
  if (error.code === 'EPIPE') process.exit(brokenPipeExit)
  throw error
}

/** Aborted by the first Ctrl-C, so that the command can say what goes on; the second one ends the process. */
function interruptible(): AbortSignal {
  const controller = new AbortController()
  const stop = (exitCode: number) => () => {
    if (controller.signal.aborted) process.exit(exitCode)
    controller.abort(new CliError('interrupted.', 'run it again when you like.', exitCode))
  }
  process.on('SIGINT', stop(exitCodes.interrupted))
  process.on('SIGTERM', stop(exitCodes.terminated))
  return controller.signal
}

function fail(terminal: Terminal, error: unknown, about: About): number {
  const isExec = process.argv[2] === 'exec'
  if (error instanceof CommanderError) {
    // Commander has said what is wrong, or shown the help that was asked for.
    if (error.exitCode === 0) return 0
    return isExec ? exitCodes.exec : exitCodes.usage
  }
  const { aborted, reason } = terminal.signal
  const failure: unknown = aborted && !(error instanceof CliError) ? reason : error
  const explanation = explain(failure, about)
  tell(terminal, explanation, about.json ? factsOf(failure) : undefined)
  return isExec && !aborted ? exitCodes.exec : explanation.exitCode
}

/** In words for people; with `facts`, in one line for programs. */
function tell(terminal: Terminal, { message, next }: Explanation, facts: object | undefined): void {
  const lines = facts
    ? [JSON.stringify({ ...facts, message, next_step: next })]
    : [`dormouse: ${message}`, ...(next ? [`Next step: ${next}`] : [])]
  for (const line of lines) terminal.note(line)
}
