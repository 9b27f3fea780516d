// clipboard: reads and replaces the text that was copied in an awake desktop.
import { text as textOf } from 'node:stream/consumers'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type JsonOption, withJson } from '../options.ts'

const id = '019a9f00-0000-7000-8000-000000000001'

interface SetOptions extends JsonOption {
  takeover?: boolean
}

/** Adds the commands. */
export function addClipboard(program: Command, context: Context): void {
  const clipboard = program.command('clipboard').description('read or replace the clipboard of an awake desktop')
  withJson(clipboard.command('get'), `dormouse clipboard get ${id}`)
    .description('print the text that was copied last')
    .argument('<id>', 'desktop')
    .action((desktop: string, options: JsonOption) => get(context, desktop, options))
  withJson(clipboard.command('set'), `dormouse clipboard set ${id} 'Grüße'\ndormouse clipboard set ${id} - < notes.txt`)
    .description('let the desktop’s programs paste a text')
    .argument('<id>', 'desktop')
    .argument('<text>', 'the text; - reads standard input')
    .option('--takeover', 'take the claim from another client')
    .action((desktop: string, text: string, options: SetOptions) => set(context, desktop, text, options))
}

async function get(context: Context, desktop: string, options: JsonOption): Promise<void> {
  context.about.id = desktop
  const { signal } = context.terminal
  const read = await context.customer().readClipboard(desktop, { signal })
  if (read.text === null && !options.json)
    throw new CliError('nothing was copied yet', 'copy a text in the desktop, then retry', exitCodes.failed)
  // As it is, so that it can go into a file.
  context.show(options, read, () => read.text ?? '')
  if (read.truncated) context.terminal.note('The text is longer; this is the beginning.')
}

async function set(context: Context, desktop: string, given: string, { takeover, ...options }: SetOptions) {
  context.about.id = desktop
  const { signal } = context.terminal
  const text = given === '-' ? await textOf(process.stdin) : given
  const done = await context.customer().writeClipboard(desktop, { text, takeover }, { signal })
  context.show(options, done, () => '')
}
