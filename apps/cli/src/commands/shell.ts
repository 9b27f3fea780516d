// Terminals in a desktop: a shell, any program, or one that was left. What is typed and what is shown go by offsets, so a lost
// connection or a sleep loses no byte; the program goes on without this one.
import type { Client, ExecStateJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { joinTerminal, type LocalTerminal } from './join-terminal.ts'

const detachHint = 'Ctrl-] leaves it running'
/** A login shell, the better one if there are two. */
const loginShell = ['/bin/sh', '-c', 'command -v bash >/dev/null && exec bash -l; exec sh -l']
/** How much of the earlier output is shown again. */
const shownAgainBytes = 64 * 1024

/** Adds the commands. */
export function addShell(program: Command, context: Context): void {
  const example = (text: string) => `\nExample:\n  dormouse ${text} 019a9f00-0000-7000-8000-000000000001`
  program
    .command('shell')
    .description(`open a shell in an awake desktop; ${detachHint}`)
    .addHelpText('after', example('shell'))
    .argument('<id>', 'desktop')
    .action((id: string) => openTerminalIn(context, id, loginShell, {}))
  program
    .command('attach')
    .description(`go on with a terminal that was left; ${detachHint}`)
    .addHelpText('after', `${example('attach')} 019a9f00-0000-7000-8000-000000000002`)
    .argument('<id>', 'desktop')
    .argument('<exec>', 'id of the exec; `dormouse execs` lists them')
    .action(async (id: string, execId: string) => {
      context.about.id = id
      const local = localTerminal()
      const client = context.customer()
      const exec = await client.execs.get(id, execId, { signal: context.terminal.signal })
      if (!exec.tty) throw new CliError('the exec has no terminal', 'follow it with `dormouse logs`', exitCodes.usage)
      const { start, end } = exec.stdout
      await join(context, client, exec, local, Math.max(start, end - shownAgainBytes))
    })
}

/** Starts a program in a terminal of the desktop, and joins it to this one. */
export async function openTerminalIn(
  context: Context,
  id: string,
  command: string[],
  { cwd, env, timeoutSecs }: { cwd?: string; env?: Record<string, string>; timeoutSecs?: number },
): Promise<void> {
  context.about.id = id
  const local = localTerminal()
  const client = context.customer()
  const body = {
    command,
    cwd,
    env: { TERM: process.env.TERM ?? 'xterm', ...env },
    tty: local.size(),
    timeout_secs: timeoutSecs,
    wait_for_reader: true,
  }
  const exec = await client.execs.start(id, body, { signal: context.terminal.signal })
  await join(context, client, exec, local, 0)
}

async function join(
  { terminal, about }: Context,
  client: Client,
  exec: ExecStateJson,
  local: LocalTerminal,
  offset: number,
): Promise<void> {
  about.id = exec.desktop_id
  const how = await joinTerminal(client.execs, exec, { ...local, offset, signal: terminal.signal })
  const attach = `dormouse attach ${exec.desktop_id} ${exec.id}`
  if (how === 'left') return terminal.note(`\ndormouse: it goes on without you; come back with \`${attach}\``)
  const end = await client.execs.get(exec.desktop_id, exec.id)
  if (end.state === 'lost') terminal.note(`dormouse: the terminal was lost (${end.reason})`)
  process.exitCode = end.state === 'lost' ? 1 : (end.exit_code ?? 128 + (end.signal ?? 0))
}

/** This process's own terminal. */
function localTerminal(): LocalTerminal {
  const { stdin, stdout } = process
  if (!stdin.isTTY || !stdout.isTTY)
    throw new CliError('this needs a terminal', 'use `dormouse exec` without -t, or `dormouse start`', exitCodes.usage)
  return {
    input: stdin,
    output: stdout,
    // Some terminals do not know their size.
    size: () => ({ cols: stdout.columns || 80, rows: stdout.rows || 24 }),
    raw: (on) => void stdin.setRawMode(on),
    onResize: (resized) => {
      stdout.on('resize', resized)
      return () => stdout.off('resize', resized)
    },
  }
}
