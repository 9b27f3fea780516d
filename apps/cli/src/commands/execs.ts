// Commands that last: start one, list them, show or follow their output, end them.
import type { ExecStateJson, ExecStream } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { execTimeout, integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

interface StartCliOptions extends JsonOption {
  cwd?: string
  timeoutSecs?: number
  keepAwake?: boolean
}

interface LogsOptions {
  follow?: boolean
  stream: ExecStream
  offset?: number
}

const someExec = '019a9f00-0000-7000-8000-000000000001 019a9f00-0000-7000-8000-000000000002'

/** Adds the commands. */
export function addExecs(program: Command, context: Context): void {
  withJson(program.command('start'), 'dormouse start 019a9f00-0000-7000-8000-000000000001 -- make -j2')
    .description('start a command that lasts, and print its id; it survives lost connections and hibernation')
    .usage('[options] <id> -- <command> [args...]')
    .argument('<id>', 'desktop')
    .argument('<command...>', 'program and arguments, after --')
    .option('--cwd <folder>', 'working folder')
    .addOption(execTimeout())
    .option('--keep-awake', 'the desktop does not hibernate by itself while it runs')
    .action((id: string, command: string[], options: StartCliOptions) => start(context, id, command, options))

  withJson(program.command('execs'), 'dormouse execs 019a9f00-0000-7000-8000-000000000001')
    .description('list the commands that were started with `start`, newest first')
    .argument('<id>', 'desktop')
    .action(async (id: string, options: JsonOption) => {
      context.about.id = id
      const list = await context.customer().execs.list(id, { signal: context.terminal.signal })
      context.show(options, list, () => table(['ID', 'STATE', 'STARTED', 'OUTPUT', 'COMMAND'], list.execs.map(lineOf)))
    })

  program
    .command('logs')
    .description('print the output of a command that was started with `start`, as it is')
    .addHelpText('after', `\nExample:\n  dormouse logs ${someExec} --follow`)
    .argument('<id>', 'desktop')
    .argument('<exec>', 'id that `start` has printed')
    .option('--follow', 'go on until the command has ended, also over a sleep; then exit as it did')
    .addOption(new Option('--stream <name>', 'stdout or stderr').choices(['stdout', 'stderr']).default('stdout'))
    .option('--offset <n>', 'begin at this byte', integerFrom(0))
    .action((id: string, exec: string, options: LogsOptions) => logs(context, id, exec, options))

  withJson(program.command('signal'), `dormouse signal ${someExec} 9`)
    .description('send a signal to a command that was started with `start`, and to its process group')
    .argument('<id>', 'desktop')
    .argument('<exec>', 'id that `start` has printed')
    .argument('[number]', 'of the signal: 2 interrupts, 9 kills (default: 15, which terminates)', integerFrom(1))
    .action(async (id: string, exec: string, number: number | undefined, options: JsonOption) => {
      context.about.id = id
      const { signal } = context.terminal
      const seen = await context.customer().execs.signal(id, exec, number ?? 15, { signal })
      context.show(options, seen, () => `${seen.id} ${seen.state}\n`)
    })
}

async function start(context: Context, id: string, command: string[], options: StartCliOptions): Promise<void> {
  context.about.id = id
  const { cwd, timeoutSecs: timeout_secs, keepAwake: keep_awake } = options
  const body = { command, cwd, timeout_secs, keep_awake }
  const exec = await context.customer().execs.start(id, body, { signal: context.terminal.signal })
  context.show(options, exec, () => `${exec.id}\n`)
}

async function logs(context: Context, id: string, execId: string, options: LogsOptions): Promise<void> {
  context.about.id = id
  const { execs } = context.customer()
  const { signal } = context.terminal
  const { stream, offset } = options
  let at = offset ?? 0
  const print = (bytes: Uint8Array, from: number) => {
    if (from > at) context.terminal.note(`dormouse: ${from - at} bytes were dropped before offset ${from}`)
    at = from + bytes.length
    process.stdout.write(bytes)
  }
  if (options.follow) {
    context.about.endsByInterrupt = true
    for await (const { bytes, offset: from } of execs.follow(id, execId, { stream, offset: at, signal }))
      print(bytes, from)
    return exitAs(context, await execs.get(id, execId, { signal }))
  }
  for (;;) {
    const { bytes, offset: from } = await execs.read(id, execId, { stream, offset: at, signal })
    if (bytes.length === 0) return
    print(bytes, from)
  }
}

function exitAs({ terminal }: Context, { state, reason, exit_code, signal }: ExecStateJson): void {
  if (state === 'lost') terminal.note(`dormouse: the command was lost (${reason}); this is what is kept of its output`)
  process.exitCode = state === 'lost' ? 1 : (exit_code ?? 128 + (signal ?? 0))
}

const lineOf = ({ id, state, started_at, stdout, stderr, command, ...end }: ExecStateJson): string[] => [
  id,
  state === 'exited' ? `exited ${end.exit_code ?? `by signal ${end.signal}`}` : state,
  started_at,
  String(stdout.end + stderr.end),
  command.replaceAll(/\p{C}/gu, ' ').slice(0, 60),
]
