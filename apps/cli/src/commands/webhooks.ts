// webhook: where events are sent, how their deliveries went, and what is sent again.
import type { CreatedWebhookJson, DeliveryJson, WebhookJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { eventTypesOption, integerFrom, type JsonOption, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'

interface AddOptions extends JsonOption {
  type?: string[]
  select?: string
  ed25519?: boolean
}
interface UpdateOptions extends JsonOption {
  url?: string
  type?: string[]
  allTypes?: boolean
  enable?: boolean
  disable?: boolean
  rotateSecret?: boolean
  keepOldSecs?: number
}
interface RedeliverOptions extends JsonOption {
  since?: string
  failed?: boolean
}
type DeliveriesOptions = JsonOption & { state?: DeliveryJson['state']; limit: number }

const example = '019a9f00-0000-7000-8000-0000000000bb'

/** Adds the commands. */
export function addWebhooks(program: Command, context: Context): void {
  const webhook = program.command('webhook').description('send events to a URL')
  withJson(webhook.command('add'), 'dormouse webhook add https://example.com/dormouse --type desktop.state')
    .description('send events from now on to a URL; prints the secret, which is shown only once')
    .argument('<url>', 'https URL')
    .addOption(eventTypesOption())
    .option('--select <selector>', 'only events of desktops whose labels match then, such as team=qa')
    .option('--ed25519', 'sign with a private key of the service, and print its public key')
    .action((url: string, options: AddOptions) => add(context, url, options))
  withJson(webhook.command('list'), 'dormouse webhook list')
    .description('list webhooks, newest first')
    .action((options: JsonOption) => list(context, options))
  withJson(webhook.command('update'), `dormouse webhook update ${example} --enable`)
    .description('change, enable or disable a webhook, or replace its secret')
    .argument('<id>', 'webhook')
    .option('--url <url>', 'another URL')
    .addOption(eventTypesOption())
    .addOption(new Option('--all-types', 'events of all types').conflicts('type'))
    .option('--enable', 'continue its deliveries')
    .addOption(new Option('--disable', 'stop its deliveries').conflicts('enable'))
    .option('--rotate-secret', 'make a new secret; the old one signs for a while longer')
    .option('--keep-old-secs <n>', 'with --rotate-secret: for how long, 86400 by default', integerFrom(0))
    .action((id: string, options: UpdateOptions) => update(context, id, options))
  withJson(webhook.command('remove'), `dormouse webhook remove ${example}`)
    .description('send nothing more to it')
    .argument('<id>', 'webhook')
    .action(async (id: string, options: JsonOption) => {
      await context.customer().webhooks.remove(id, { signal: context.terminal.signal })
      context.show(options, { id }, () => `${id} is removed\n`)
    })
  addDeliveries(webhook, context)
}

function addDeliveries(webhook: Command, context: Context): void {
  withJson(webhook.command('test'), `dormouse webhook test ${example}`)
    .description('send a test, once')
    .argument('<id>', 'webhook')
    .action(async (id: string, options: JsonOption) => {
      const delivery = await context.customer().webhooks.test(id, { signal: context.terminal.signal })
      context.show(options, delivery, () => deliveryTable([delivery]))
      if (!options.json) context.terminal.note(`Its outcome: dormouse webhook deliveries ${id}`)
    })
  withJson(webhook.command('deliveries'), `dormouse webhook deliveries ${example} --state failed`)
    .description('list deliveries, newest first')
    .argument('<id>', 'webhook')
    .addOption(new Option('--state <state>', 'only these').choices(['pending', 'succeeded', 'failed']))
    .addOption(new Option('--limit <n>', 'at most so many, up to 100').argParser(integerFrom(1)).default(50))
    .action((id: string, options: DeliveriesOptions) => deliveries(context, id, options))
  withJson(webhook.command('redeliver'), `dormouse webhook redeliver ${example} --since 2026-01-01T12:00:00Z --failed`)
    .description('send one delivery again, or all since a time')
    .argument('<id>', 'webhook')
    .argument('[delivery]', 'delivery')
    .option('--since <time>', 'all that has settled, of events since this time (RFC 3339)')
    .option('--failed', 'with --since: only what has failed')
    .action((id: string, delivery: string | undefined, options: RedeliverOptions) =>
      redeliver(context, id, delivery, options),
    )
}

async function add(context: Context, url: string, options: AddOptions): Promise<void> {
  const { type, select, ed25519 } = options
  const body = { url, types: type ?? null, select, signature: ed25519 ? 'v1a' : 'v1' } as const
  const made = await context.customer().webhooks.create(body as never, { signal: context.terminal.signal })
  context.show(options, made, () => shown(made))
}

async function list(context: Context, options: JsonOption): Promise<void> {
  const found = await context.customer().webhooks.list({ signal: context.terminal.signal })
  const rows = found.webhooks.map((each) => [each.id, stateOf(each), each.types?.join(' ') ?? 'all', each.url])
  context.show(options, found, () => (rows.length ? table(['ID', 'STATE', 'TYPES', 'URL'], rows) : ''))
  if (rows.length === 0 && !options.json)
    context.terminal.note('There is no webhook; `dormouse webhook add` makes one.')
}

async function update(context: Context, id: string, options: UpdateOptions): Promise<void> {
  const { url, type, allTypes, enable, disable, rotateSecret, keepOldSecs } = options
  const { webhooks } = context.customer()
  const { signal } = context.terminal
  const types = allTypes ? null : type
  const enabled = enable ? true : disable ? false : undefined
  const body = { ...(url && { url }), ...(types !== undefined && { types }), ...(enabled !== undefined && { enabled }) }
  if (Object.keys(body).length === 0 && !rotateSecret)
    throw new CliError(
      'nothing to change',
      'name an option; `dormouse webhook update --help` lists them',
      exitCodes.usage,
    )
  let now: WebhookJson | CreatedWebhookJson | undefined
  if (Object.keys(body).length > 0) now = await webhooks.update(id, body as never, { signal })
  if (rotateSecret)
    now = await webhooks.rotateSecret(id, keepOldSecs === undefined ? {} : { keep_old_secs: keepOldSecs }, { signal })
  context.show(options, now!, () => shown(now!))
}

async function deliveries(
  context: Context,
  id: string,
  { state, limit, ...options }: DeliveriesOptions,
): Promise<void> {
  const query = { limit: Math.min(limit, 100), ...(state && { state }) }
  const found = await context.customer().webhooks.deliveries(id, query, { signal: context.terminal.signal })
  context.show(options, { deliveries: found.deliveries }, () =>
    found.deliveries.length ? deliveryTable(found.deliveries) : '',
  )
  if (!found.deliveries.length && !options.json) context.terminal.note('There is no such delivery.')
}

async function redeliver(
  context: Context,
  id: string,
  delivery: string | undefined,
  options: RedeliverOptions,
): Promise<void> {
  const { webhooks } = context.customer()
  const { signal } = context.terminal
  const { since, failed } = options
  if ((delivery === undefined) === (since === undefined))
    throw new CliError(
      'neither a delivery nor --since is given, or both are',
      'name one delivery, or a time with --since',
      exitCodes.usage,
    )
  if (delivery !== undefined) {
    const again = await webhooks.redeliver(id, delivery, { signal })
    return context.show(options, again, () => deliveryTable([again]))
  }
  const body = { since: since!, ...(failed && { state: 'failed' as const }) }
  const result = await webhooks.redeliverSince(id, body, { signal })
  context.show(options, result, () => `${result.count} deliveries are sent again\n`)
  if (result.more_since && !options.json)
    context.terminal.note(`There are more: repeat with --since ${result.more_since}`)
}

const stateOf = ({ enabled, disabled_reason, failing_since }: WebhookJson): string =>
  enabled ? (failing_since ? 'failing' : 'enabled') : `disabled (${disabled_reason})`

const shown = (webhook: WebhookJson | CreatedWebhookJson): string =>
  fields({
    id: webhook.id,
    url: webhook.url,
    types: webhook.types?.join(' ') ?? 'all',
    state: stateOf(webhook),
    ...('secret' in webhook && webhook.secret && { secret: webhook.secret }),
    ...(webhook.public_keys.length > 0 && { 'public key': webhook.public_keys.join(' ') }),
    ...(webhook.old_secret_until && { 'old secret until': webhook.old_secret_until }),
  })

function deliveryTable(all: DeliveryJson[]): string {
  const rows = all.map(({ id, type, sequence, state, attempts, created_at, next_attempt_at }) => {
    const last = attempts.at(-1)
    const outcome = last && [last.status, last.error].filter((each) => each !== null).join(' ')
    return [id, sequence, type, state, attempts.length, outcome, created_at, next_attempt_at]
  })
  return table(['ID', 'NUMBER', 'TYPE', 'STATE', 'ATTEMPTS', 'LAST', 'CREATED', 'NEXT'], rows)
}
