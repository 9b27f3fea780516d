// ls: lists a folder of an awake desktop; without a folder, the desktops.
import type { DesktopState, EntryJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type GuestPlace, guestFolder } from '../guest-place.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'
import { list, stateOption } from './desktops.ts'

interface LsOptions extends JsonOption {
  state?: DesktopState[]
  limit?: number
  depth?: number
}

const example = `dormouse ls 019a9f00-0000-7000-8000-000000000001:/srv
dormouse ls --depth 3 --json 019a9f00-0000-7000-8000-000000000001:/srv
dormouse ls                  the desktops, as \`dormouse list\``

const pageSize = 1_000

/** Adds the command. */
export function addLs(program: Command, context: Context): void {
  withJson(program.command('ls'), example)
    .description('list a folder of an awake desktop; without a folder, list desktops')
    .argument('[folder]', '<id>:<path>; <id> alone is its root')
    .option('--depth <n>', 'levels below the folder (default: 1; 0: the entry of the path itself)', integerFrom(0))
    .addOption(stateOption())
    .option('--limit <n>', 'at most this many', integerFrom(1))
    .action((folder: string | undefined, options: LsOptions) => {
      if (folder === undefined) return list(context, options)
      const notPlace = new CliError(
        `${folder} is not a folder of a desktop`,
        'write it as <id> or <id>:<path>',
        exitCodes.usage,
      )
      const place = guestFolder(folder)
      if (!place) throw notPlace
      return listFolder(context, place, options)
    })
}

async function listFolder(context: Context, { id, path }: GuestPlace, options: LsOptions): Promise<void> {
  context.about.id = id
  const { depth, limit = Infinity } = options
  const { signal } = context.terminal
  const client = context.customer()
  const entries: EntryJson[] = []
  let cursor: string | undefined
  do {
    const query = { path: absolute(path), depth, limit: Math.min(limit - entries.length, pageSize), cursor }
    const page = await client.listEntries(id, query, { signal })
    entries.push(...page.entries)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined && entries.length < limit)
  context.show(options, { entries }, () => (entries.length ? listing(entries) : ''))
  if (cursor !== undefined && !options.json) context.terminal.note('There are more; raise --limit.')
}

const absolute = (path: string) => (path.startsWith('/') ? path : `/${path}`)

const letters: Record<EntryJson['type'], string> = {
  file: '-',
  directory: 'd',
  link: 'l',
  fifo: 'p',
  socket: 's',
  character_device: 'c',
  block_device: 'b',
  unknown: '?',
}

function listing(entries: EntryJson[]): string {
  const rows = entries.map(({ type, mode, uid, gid, size, modified_at, path, target }) => [
    `${letters[type]}${mode}`,
    `${uid}:${gid}`,
    size,
    modified_at,
    shown(path) + (target === null ? '' : ` -> ${shown(target)}`),
  ])
  return table(['MODE', 'OWNER', 'SIZE', 'CHANGED', 'PATH'], rows)
}

/** A name with control characters is shown as JSON, so that it changes no terminal and stays on its line. */
const shown = (name: string): string => (/\p{C}/u.test(name) ? JSON.stringify(name) : name)
