// The process around the program: signals, pipes and exit codes.
import { CommanderError } from 'commander'
import { type Context, createContext } from './context.ts'
import { CliError, type Explanation, exitCodes, explain, factsOf } from './failures.ts'
import { createProgram } from './program.ts'
import { openTerminal, type Terminal } from './terminal.ts'

/** Runs the command in the process's arguments and sets the process's exit code. */
export async function main(): Promise<void> {
  const signals = interruptible()
  for (const stream of [process.stdout, process.stderr]) stream.on('error', signals.onPipeError)
  const terminal = openTerminal(signals)
  const context = createContext(terminal, process.env, [process.cwd(), import.meta.dirname])
  const failed = await runProgram(context, process.argv.slice(2))
  if (failed !== undefined) process.exitCode = failed
}

/** Runs the command in these arguments. Prints a failure and returns its exit code; undefined if the command has set its own. */
export async function runProgram(context: Context, args: string[]): Promise<number | undefined> {
  try {
    await createProgram(context).parseAsync(args, { from: 'user' })
    return undefined
  } catch (error) {
    return fail(context, error, args[0] === 'exec')
  }
}

interface Interruptible extends Pick<Terminal, 'signal' | 'takeSignals'> {
  /** Exits silently when the reader of a pipe has closed it, as other programs do; who takes the signals gets SIGPIPE. */
  onPipeError(error: Error & { code?: string }): void
}

/** Aborted by the first Ctrl-C, so that the command can say what goes on. The second Ctrl-C exits. */
function interruptible(): Interruptible {
  const controller = new AbortController()
  let taker: ((name: NodeJS.Signals) => void) | undefined
  const stop = (exitCode: number) => (name: NodeJS.Signals) => {
    if (taker) return taker(name)
    if (controller.signal.aborted) process.exit(exitCode)
    controller.abort(new CliError('interrupted', 'run it again', exitCode))
  }
  process.on('SIGINT', stop(exitCodes.interrupted))
  process.on('SIGTERM', stop(exitCodes.terminated))
  const takeSignals: Terminal['takeSignals'] = (take) => {
    taker = take
    for (const name of endingSignals) process.on(name, take)
    return () => {
      taker = undefined
      for (const name of endingSignals) process.off(name, take)
    }
  }
  const onPipeError: Interruptible['onPipeError'] = (error) => {
    if (error.code !== 'EPIPE') throw error
    if (!taker) process.exit(exitCodes.brokenPipe)
    taker('SIGPIPE')
  }
  return { signal: controller.signal, takeSignals, onPipeError }
}

/** They end a program that does not take them. */
const endingSignals = ['SIGHUP', 'SIGQUIT'] as const

function fail({ terminal, about }: Context, error: unknown, isExec: boolean): number {
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
  return isExec && explanation.exitCode < exitCodes.incomplete ? exitCodes.exec : explanation.exitCode
}

/** Two lines for people; with `facts`, one line of JSON for programs. */
function report(terminal: Terminal, { message, next }: Explanation, facts: object | undefined): void {
  const lines = facts
    ? [JSON.stringify({ ...facts, message, next_step: next })]
    : [`dormouse: ${message}`, ...(next ? [`Next step: ${next}`] : [])]
  for (const line of lines) terminal.note(line)
}
