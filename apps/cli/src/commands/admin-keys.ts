// admin key, admin operator-key, admin host invite: credentials of customers, operators and hosts. Each is shown once.
import type { ListedInviteJson, OperatorKeyJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'

const org = '019a9f00-0000-7000-8000-0000000000ff'
const key = '019a9f00-0000-7000-8000-0000000000dd'

/** Adds the commands for API keys. */
export function addKeys(command: Command, { operator, show, terminal }: Context): void {
  const { signal } = terminal
  withJson(command.command('create'), `dormouse admin key create --org ${org} --name ci --json`)
    .description('create an API key; it is shown only once')
    .requiredOption('--org <id>', 'organisation')
    .option('--name <name>', 'a name to recognise it by')
    .action(async (options: JsonOption & { org: string; name?: string }) => {
      const made = await operator().createKey({ org_id: options.org, name: options.name }, { signal })
      show(options, made, () => fields({ id: made.id, name: made.name, 'api key': made.api_key }))
      if (!options.json) terminal.note('Save the key now; it is not shown again.')
    })
  withJson(command.command('list'), `dormouse admin key list --org ${org}`)
    .description('list an organisation’s keys')
    .requiredOption('--org <id>', 'organisation')
    .action(async (options: JsonOption & { org: string }) => {
      const { keys } = await operator().listKeys(options.org, { signal })
      const rows = keys.map((one) => [one.id, one.name, one.created_at, one.last_used_at, one.revoked_at])
      show(options, { keys }, () => table(['ID', 'NAME', 'CREATED', 'LAST USED', 'REVOKED'], rows))
    })
  withJson(command.command('revoke'), `dormouse admin key revoke ${key}`)
    .description('revoke an API key; it stops working at once')
    .argument('<id>', 'key')
    .action(async (id: string, options: JsonOption) => {
      await operator().revokeKey(id, { signal })
      show(options, { id, revoked: true }, () => `key ${id} is revoked\n`)
    })
}

const daySecs = 86_400

/** Days to seconds. */
const validDays = (what: string) =>
  new Option('--valid-days <n>', what).argParser((text) => integerFrom(1, 3_650)(text) * daySecs)

interface CreateOptions extends JsonOption {
  name: string
  role: OperatorKeyJson['role']
  validDays?: number
}

/** Adds the commands for keys of operators. */
export function addOperatorKeys(command: Command, { operator, show, terminal }: Context): void {
  const { signal } = terminal
  withJson(command.command('create'), 'dormouse admin operator-key create --name prometheus --role metrics --json')
    .description('create a key for an operator, or one that reads metrics and nothing else; it is shown only once')
    .requiredOption('--name <name>', 'whose it is, or what for; the audit log shows it')
    .addOption(new Option('--role <role>', 'what it may do').choices(['operator', 'metrics']).default('operator'))
    .addOption(validDays('it expires after so many days (default: never)'))
    .action(async ({ name, role, validDays: valid_secs, ...options }: CreateOptions) => {
      const made = await operator().createOperatorKey({ name, role, valid_secs }, { signal })
      const { id, expires_at: expires, operator_key } = made
      show(options, made, () => fields({ id, name, role, expires, 'operator key': operator_key }))
      if (!options.json) terminal.note('Save the key now; it is not shown again.')
    })
  withJson(command.command('list'), 'dormouse admin operator-key list')
    .description('list the keys of operators')
    .action(async (options: JsonOption) => {
      const found = await operator().listOperatorKeys({ signal })
      show(options, found, () => table(operatorKeyColumns, found.operator_keys.map(operatorKeyRow)))
    })
  withJson(command.command('change'), `dormouse admin operator-key change ${key} --valid-days 30`)
    .description('rename a key, or let it expire')
    .argument('<id>', 'operator key')
    .option('--name <name>', 'another name')
    .addOption(validDays('it expires after so many days from now'))
    .addOption(new Option('--never-expires', 'it does not expire').conflicts('validDays'))
    .action(changeOperatorKey)
  withJson(command.command('revoke'), `dormouse admin operator-key revoke ${key}`)
    .description('revoke an operator’s key; it stops working at once')
    .argument('<id>', 'operator key')
    .action(async (id: string, options: JsonOption) => {
      await operator().revokeOperatorKey(id, { signal })
      show(options, { id, revoked: true }, () => `operator key ${id} is revoked\n`)
    })

  async function changeOperatorKey(
    id: string,
    { name, validDays: secs, neverExpires, ...options }: JsonOption & ChangeOptions,
    own: Command,
  ): Promise<void> {
    const valid_secs = neverExpires ? null : secs
    if (name === undefined && valid_secs === undefined)
      own.error('error: use --name <name>, --valid-days <n> or --never-expires')
    const changed = await operator().changeOperatorKey(id, { name, valid_secs }, { signal })
    show(options, changed, () => table(operatorKeyColumns, [operatorKeyRow(changed)]))
  }
}

interface ChangeOptions {
  name?: string
  validDays?: number
  neverExpires?: boolean
}

const operatorKeyColumns = ['ID', 'NAME', 'ROLE', 'CREATED', 'EXPIRES', 'LAST USED', 'REVOKED']

const operatorKeyRow = (one: OperatorKeyJson) => [
  one.id,
  one.name,
  one.role,
  one.created_at,
  one.expires_at,
  one.last_used_at,
  one.revoked_at,
]

/** Adds the commands for invitations of hosts. */
export function addInvites(command: Command, { operator, show, terminal: { signal } }: Context): void {
  withJson(command.command('invite'), 'dormouse admin host invite --valid-secs 600 --json')
    .description('create a one-time token with which a host enrols')
    .option('--name <name>', 'the host’s name')
    .option('--valid-secs <n>', 'how long the token is valid', integerFrom(60))
    .action(async (options: JsonOption & { name?: string; validSecs?: number }) => {
      const made = await operator().inviteHost({ name: options.name, valid_secs: options.validSecs }, { signal })
      show(options, made, () => fields({ id: made.id, token: made.token, expires: made.expires_at }))
    })
  withJson(command.command('invites'), 'dormouse admin host invites')
    .description('list invitations, newest first; used and expired ones are kept for a week')
    .action(async (options: JsonOption) => {
      const found = await operator().listInvites({ signal })
      const rows = found.invites.map((one) => [one.id, one.name, stateOf(one), one.created_at, one.host_id])
      show(options, found, () => table(['ID', 'NAME', 'STATE', 'CREATED', 'HOST'], rows))
    })
  withJson(command.command('uninvite'), `dormouse admin host uninvite ${key}`)
    .description('revoke an invitation that was not used')
    .argument('<id>', 'invitation')
    .action(async (id: string, options: JsonOption) => {
      await operator().revokeInvite(id, { signal })
      show(options, { id, revoked: true }, () => `invitation ${id} is revoked\n`)
    })
}

const stateOf = ({ used_at, expires_at }: ListedInviteJson): string => {
  if (used_at) return `used ${used_at}`
  return Date.parse(expires_at) > Date.now() ? `valid until ${expires_at}` : 'expired'
}
