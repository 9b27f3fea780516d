// exec: runs a command in an awake desktop and exits as that command did.
import { isUtf8 } from 'node:buffer'
import { addAbortSignal } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { ExecBody, ExecJson } from '@dormouse/client'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { openTerminalIn } from './shell.ts'
import { waiting } from './transitions.ts'

interface ExecOptions extends JsonOption {
  cwd?: string
  env?: Record<string, string>
  stdin?: boolean
  tty?: boolean
  timeoutSecs?: number
}

const example = `dormouse exec 019a9f00-0000-7000-8000-000000000001 -- uname -a
dormouse exec 019a9f00-0000-7000-8000-000000000001 -- sh -c 'echo $HOME | tr a-z A-Z'

Exit code: the command's own; 128 + n if signal n ended it; ${exitCodes.exec} if dormouse itself failed.`

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
    .option('-i, --stdin', 'send standard input to it')
    .option('-t, --tty', 'in a terminal, joined to this one; Ctrl-] leaves it running')
    .option('--timeout-secs <n>', 'end it after this long (default: 60, at most 300)', integerFrom(1))
    .action((id: string, command: string[], options: ExecOptions) =>
      options.tty ? openTerminalIn(context, id, command, options) : exec(context, id, command, options),
    )
}

async function exec(context: Context, id: string, command: string[], options: ExecOptions): Promise<void> {
  context.about.id = id
  const { signal } = context.terminal
  const client = context.customer()
  const body: ExecBody = {
    command,
    cwd: options.cwd,
    env: options.env,
    stdin: options.stdin ? await input(signal) : undefined,
    timeout_secs: options.timeoutSecs,
  }
  const next = 'the command goes on until it ends or reaches --timeout-secs'
  const result = await waiting(context, `running ${command[0]}`, next, () => client.exec(id, body, { signal }))
  show(context, options, result)
  process.exitCode = result.exit_code ?? 128 + (result.signal ?? 0)
}

/** The API takes text: other bytes would change silently. */
async function input(signal: AbortSignal): Promise<string> {
  const bytes = await buffer(addAbortSignal(signal, process.stdin))
  if (isUtf8(bytes)) return bytes.toString()
  const next = 'copy the data with `dormouse cp` and let the command read the file'
  throw new CliError('standard input is not text (UTF-8)', next, exitCodes.exec)
}

function show({ terminal, show }: Context, options: ExecOptions, result: ExecJson): void {
  show(options, result, () => result.stdout)
  if (options.json) return
  process.stderr.write(result.stderr)
  if (result.stdout_truncated || result.stderr_truncated)
    terminal.note(
      'dormouse: the output was cut at 1 MiB; redirect it to a file in the guest and copy that with `dormouse cp`',
    )
}

function collect(given: string, before: Record<string, string> = {}): Record<string, string> {
  const at = given.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be name=value.')
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) }
}
