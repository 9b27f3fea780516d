// The process around the program: signals, pipes and exit codes.
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

/** Exits silently when the reader of a pipe has closed it, as other programs do. */
function onPipeError(error: Error & { code?: string }): void {
  if (error.code === 'EPIPE') process.exit(brokenPipeExit)
  throw error
}

/** Aborted by the first Ctrl-C, so that the command can say what goes on. The second Ctrl-C exits. */
function interruptible(): AbortSignal {
  const controller = new AbortController()
  const stop = (exitCode: number) => () => {
    if (controller.signal.aborted) process.exit(exitCode)
    controller.abort(new CliError('interrupted', 'run it again', exitCode))
  }
  process.on('SIGINT', stop(exitCodes.interrupted))
  process.on('SIGTERM', stop(exitCodes.terminated))
  return controller.signal
}

function fail(terminal: Terminal, error: unknown, about: About): number {
  const isExec = process.argv[2] === 'exec'
  if (error instanceof CommanderError) {
    // Commander has printed the error, or the help.
    if (error.exitCode === 0) return 0
    return isExec ? exitCodes.exec : exitCodes.usage
  }
  const { aborted, reason } = terminal.signal
  const failure: unknown = aborted && !(error instanceof CliError) ? reason : error
  const explanation = explain(failure, about)
  if (failure !== reason || !about.endsByInterrupt)
    report(terminal, explanation, about.json ? factsOf(failure) : undefined)
  return isExec && !aborted ? exitCodes.exec : explanation.exitCode
}

/** Two lines for people; with `facts`, one line of JSON for programs. */
function report(terminal: Terminal, { message, next }: Explanation, facts: object | undefined): void {
  const lines = facts
    ? [JSON.stringify({ ...facts, message, next_step: next })]
    : [`dormouse: ${message}`, ...(next ? [`Next step: ${next}`] : [])]
  for (const line of lines) terminal.note(line)
}
