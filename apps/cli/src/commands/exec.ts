// exec: run a command in a desktop, and pass on its input, its output, the signals that this program gets, and its exit code.
import { once } from 'node:events'
import { constants } from 'node:os'
import type { Client, ExecJson, ExecStateJson } from '@dormouse/client'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { execTimeout, type JsonOption, withJson } from '../options.ts'
import type { Terminal } from '../terminal.ts'
import { openTerminalIn } from './shell.ts'

interface ExecOptions extends JsonOption {
  cwd?: string
  env?: Record<string, string>
  stdin?: boolean
  tty?: boolean
  timeoutSecs?: number
  keepAwake?: boolean
}

const example = `dormouse exec 019a9f00-0000-7000-8000-000000000001 -- uname -a
dormouse exec 019a9f00-0000-7000-8000-000000000001 -- sh -c 'echo $HOME | tr a-z A-Z'
tar c . | dormouse exec -i 019a9f00-0000-7000-8000-000000000001 -- tar x -C /srv

It goes on over a lost connection and a sleep of the desktop. Ctrl-C interrupts the command; the third one kills it.
Exit code: the command's own; 128 + n if signal n ended it; ${exitCodes.incomplete} if a part of its output was dropped;
${exitCodes.exec} if dormouse itself failed.`

/** Adds the command. */
export function addExec(program: Command, context: Context): void {
  withJson(program.command('exec'), example)
    .description('run a command in an awake desktop and exit with its exit code')
    .showHelpAfterError(
      'Next step: put -- before the command, as in `dormouse exec <id> -- uname -a`; --help shows the options.',
    )
    .usage('[options] <id> -- <command> [args...]')
    .argument('<id>', 'desktop')
    .argument('<command...>', 'program and arguments, after --')
    .option('--cwd <folder>', 'working folder')
    .option('-e, --env <name=value>', 'environment variable; repeatable', collect)
    .option('-i, --stdin', 'send standard input to it, as it comes')
    .option('-t, --tty', 'in a terminal, joined to this one; Ctrl-] leaves it running')
    .addOption(execTimeout())
    .option('--keep-awake', 'the desktop does not hibernate by itself while it runs')
    .action((id: string, command: string[], options: ExecOptions) =>
      options.tty ? openTerminalIn(context, id, command, options) : exec(context, id, command, options),
    )
}

async function exec(context: Context, id: string, command: string[], options: ExecOptions): Promise<void> {
  context.about.id = id
  const client = context.customer()
  const body = {
    ...{ command, cwd: options.cwd, env: options.env },
    ...{ timeout_secs: options.timeoutSecs, keep_awake: options.keepAwake },
  }
  const input = options.stdin ? process.stdin : undefined
  using signals = new Signals(client, context.terminal.takeSignals)
  try {
    const ended = await client.execs.run(id, body, {
      stdin: input as AsyncIterable<Uint8Array<ArrayBuffer>> | undefined,
      signal: signals.killed,
      onStarted: (started) => signals.passTo(started),
      // With --json the output is in the document.
      ...(options.json ? {} : { onOutput: printTo, keptLength: 0 }),
    })
    if (options.json) context.show(options, ended, () => '')
    const { stdout, stderr } = ended.dropped_bytes
    if (stdout + stderr > 0)
      throw new CliError(
        `the command ended with exit code ${exitCodeOf(ended)}, but ${stdout} bytes of its stdout and ${stderr} of its stderr were dropped while nothing read them`,
        'run it again if that is safe, with its output in a file of the desktop: `dormouse cp` fetches it whole',
        exitCodes.incomplete,
        { exit_code: ended.exit_code, signal: ended.signal, dropped_bytes: ended.dropped_bytes },
      )
    process.exitCode = exitCodeOf(ended)
  } catch (error) {
    if (signals.killed.reason !== pipeClosed) throw error
    process.exitCode = exitCodes.brokenPipe
  } finally {
    // A command may end before its input does.
    input?.destroy()
  }
}

const exitCodeOf = ({ exit_code, signal }: ExecJson): number => exit_code ?? 128 + (signal ?? 0)

/** Returns when there is space for more. */
async function printTo(stream: 'stdout' | 'stderr', bytes: Uint8Array): Promise<void> {
  const to = process[stream]
  if (!to.write(bytes)) await once(to, 'drain')
}

/** Sends the command the signals that this program gets; so many that it does not heed kill it. */
const mostIgnored = 3

class Signals implements Disposable {
  readonly #client: Client
  readonly #end: () => void
  readonly #killed = new AbortController()
  #exec: ExecStateJson | undefined
  #waiting: number[] = []
  #count = 0

  constructor(client: Client, handOver: Terminal['takeSignals']) {
    this.#client = client
    this.#end = handOver((name) => this.#pass(constants.signals[name]))
  }

  get killed(): AbortSignal {
    return this.#killed.signal
  }

  /** It runs: what came before is passed on. */
  passTo(exec: ExecStateJson): void {
    this.#exec = exec
    for (const number of this.#waiting.splice(0)) this.#send(number)
  }

  #pass(number: number): void {
    // Nobody reads the output any more: the command ends, as one of this machine would.
    if (number === constants.signals.SIGPIPE) this.#killed.abort(pipeClosed)
    this.#count++
    if (this.#count >= mostIgnored) this.#killed.abort(killedBy(number))
    else if (this.#exec) this.#send(number)
    else this.#waiting.push(number)
  }

  /** If it cannot be sent, the next one comes from whoever sent this one. */
  #send(number: number): void {
    const { desktop_id, id } = this.#exec!
    this.#client.execs.signal(desktop_id, id, number).catch(() => undefined)
  }

  [Symbol.dispose](): void {
    this.#end()
  }
}

const pipeClosed = new CliError('the reader of the output has closed it', 'keep it open', exitCodes.brokenPipe)

const killedBy = (number: number) =>
  new CliError('interrupted, and the command was killed', 'run it again', 128 + number)

function collect(given: string, before: Record<string, string> = {}): Record<string, string> {
  const at = given.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be name=value.')
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) }
}
