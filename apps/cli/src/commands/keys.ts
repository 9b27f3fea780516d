// key: API keys that may do some things, with some desktops.
import type { OwnKeyJson, Right } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, longDurationSecs, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'

interface CreateOptions extends JsonOption {
  name: string
  can: Right[]
  select?: string
  desktop?: string
  expires?: number
}

const example = '019a9f00-0000-7000-8000-0000000000dd'
// Only its type: this program starts faster without the contract's schemas.
const rights: readonly Right[] = ['see', 'use', 'power', 'create', 'destroy', 'admin']

/** Adds the commands. */
export function addKeys(program: Command, context: Context): void {
  const key = program.command('key').description('make API keys that may do less than yours')
  const { terminal, show } = context
  const { signal } = terminal
  withJson(
    key.command('create'),
    'dormouse key create --name nightly --can see use power --select team=qa --expires 12h',
  )
    .description('make a key; it is shown only once')
    .requiredOption('--name <name>', 'a name to recognise it by')
    .addOption(new Option('--can <rights...>', 'what it may do').choices(rights).makeOptionMandatory())
    .option('--select <selector>', 'only desktops whose labels match, such as team=qa; others do not exist for it')
    .addOption(new Option('--desktop <id>', 'only this desktop').conflicts('select'))
    .addOption(
      new Option('--expires <time>', 'it expires after this, such as 45m, 12h or 30d (default: never)').argParser(
        longDurationSecs,
      ),
    )
    .action(async ({ name, can, select, desktop, expires, json }: CreateOptions) => {
      const body = { name, can, select, desktop_id: desktop, expires_in_secs: expires }
      const made = await context.customer().keys.create(body, { signal })
      show({ json }, made, () => fields({ ...shown(made), 'api key': made.api_key }))
      if (!json) terminal.note('Save the key now; it is not shown again.')
    })
  withJson(key.command('list'), 'dormouse key list')
    .description('list the organisation’s valid keys')
    .action(async (options: JsonOption) => {
      const found = await context.customer().keys.list({ signal })
      show(options, found, () =>
        table(['ID', 'NAME', 'CAN', 'DESKTOPS', 'EXPIRES', 'LAST USED'], found.keys.map(rowOf)),
      )
    })
  withJson(key.command('revoke'), `dormouse key revoke ${example}`)
    .description('revoke a key; what it has open is closed within seconds')
    .argument('<id>', 'key')
    .action(async (id: string, options: JsonOption) => {
      await context.customer().keys.revoke(id, { signal })
      show(options, { id, revoked: true }, () => `key ${id} is revoked\n`)
    })
}

const desktopsOf = ({ select, desktop_id: id }: OwnKeyJson): string => select ?? id ?? 'all'

const rowOf = (key: OwnKeyJson) => [
  key.id,
  key.name,
  key.can.join(' '),
  desktopsOf(key),
  key.expires_at,
  key.last_used_at,
]

const shown = (key: OwnKeyJson) => ({
  id: key.id,
  name: key.name,
  can: key.can.join(' '),
  desktops: desktopsOf(key),
  expires: key.expires_at,
})
