// exec: runs a command in an awake desktop and ends as that command ended.
import { isUtf8 } from 'node:buffer'
import { addAbortSignal } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { ExecBody, ExecJson } from '@dormouse/client'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { waiting } from './transitions.ts'

interface ExecOptions extends JsonOption {
  cwd?: string
  env?: Record<string, string>
  stdin?: boolean
  timeoutSecs?: number
}

const example = `dormouse exec 019a9f00-0000-7000-8000-000000000001 -- uname -a
dormouse exec 019a9f00-0000-7000-8000-000000000001 -- sh -c 'echo $HOME | tr a-z A-Z'

Exit code: the command's own, 128 + n where signal n ended it, ${exitCodes.exec} for every failure of ours.`

/** Adds the command that runs others. */
export function addExec(program: Command, context: Context): void {
  withJson(program.command('exec'), example)
    .description('run a command in an awake desktop; its exit code is passed on')
    .showHelpAfterError(
      'Next step: put -- before the command, as in `dormouse exec <id> -- uname -a`; --help shows the options.',
    )
    .usage('[options] <id> -- <command> [args...]')
    .argument('<id>', 'desktop')
    .argument('<command...>', 'program and arguments, after --')
    .option('--cwd <folder>', 'folder to run it in')
    .option('-e, --env <name=value>', 'a variable for it; may be repeated', collect)
    .option('-i, --stdin', 'send our standard input to it')
    .option('--timeout-secs <n>', 'its limit in the guest; 60 by default, 300 at most', integerFrom(1))
    .action((id: string, command: string[], options: ExecOptions) => exec(context, id, command, options))
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
  const next = 'it ends by itself or at its limit (--timeout-secs).'
  const result = await waiting(context, `running ${command[0]}`, next, () => client.exec(id, body, { signal }))
  show(context, options, result)
  process.exitCode = result.exit_code ?? 128 + (result.signal ?? 0)
}

/** Bytes that are no text would arrive as others, without a word. */
async function input(signal: AbortSignal): Promise<string> {
  const bytes = await buffer(addAbortSignal(signal, process.stdin))
  if (isUtf8(bytes)) return bytes.toString()
  const next = 'copy it with `dormouse cp`, and let the command read it from there.'
  throw new CliError('our standard input is not text (UTF-8).', next, exitCodes.exec)
}

function show({ terminal, show }: Context, options: ExecOptions, result: ExecJson): void {
  show(options, result, () => result.stdout)
  if (options.json) return
  process.stderr.write(result.stderr)
  if (result.stdout_truncated || result.stderr_truncated)
    terminal.note('dormouse: the output was cut; write it to a file in the guest to keep all of it.')
}

function collect(given: string, before: Record<string, string> = {}): Record<string, string> {
  const at = given.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be name=value.')
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) }
}
