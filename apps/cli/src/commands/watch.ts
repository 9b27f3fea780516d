// watch: shows what changes in a folder of a desktop, until Ctrl-C.
import type { ChangeJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { guestFolder } from '../guest-place.ts'
import { type JsonOption, withJson } from '../options.ts'

interface WatchCliOptions extends JsonOption {
  recursive?: boolean
}

const id = '019a9f00-0000-7000-8000-000000000001'

/** Adds the command. */
export function addWatch(program: Command, context: Context): void {
  withJson(program.command('watch'), `dormouse watch ${id}:/srv\ndormouse watch -r --json ${id}:/srv`)
    .description('show what changes in a folder of an awake desktop, until Ctrl-C; with --json, one change per line')
    .argument('<folder>', '<id>:<path>')
    .option('-r, --recursive', 'also everything below it')
    .action((folder: string, options: WatchCliOptions) => watch(context, folder, options))
}

async function watch(context: Context, folder: string, options: WatchCliOptions): Promise<void> {
  const place = guestFolder(folder)
  if (!place) throw new CliError(`${folder} is not a folder of a desktop`, 'write it as <id>:<path>', exitCodes.usage)
  Object.assign(context.about, { id: place.id, endsByInterrupt: true })
  const { terminal } = context
  const path = place.path.startsWith('/') ? place.path : `/${place.path}`
  const { recursive = false } = options
  for await (const change of context.customer().watches.follow(place.id, path, { recursive, signal: terminal.signal }))
    terminal.write(`${options.json ? JSON.stringify(change) : lineOf(change)}\n`)
  terminal.signal.throwIfAborted()
}

function lineOf({ type, path, folder, to }: ChangeJson): string {
  if (path === null) return 'overflow    changes may be missing; list the folder again'
  const shown = [path, ...(to === null ? [] : [to])].map((one) => printable(one) + (folder ? '/' : ''))
  return `${type.padEnd(10)}  ${shown.join(' -> ')}`
}

/** A name with control characters is shown as JSON, so that it changes no terminal and stays on its line. */
const printable = (name: string): string => (/\p{C}/u.test(name) ? JSON.stringify(name) : name)
