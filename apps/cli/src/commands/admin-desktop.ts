// admin desktop: what operators do to desktops of any organisation.
import {
  type AdminClient,
  type AdminOperationJson,
  type DesktopState,
  OperationFailedError,
  type OperationJson,
} from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, timeoutOption, withJson } from '../options.ts'
import { fields, seconds, table } from '../terminal.ts'
import { described, stateOption } from './desktops.ts'
import { following, progressText, waiting } from './following.ts'
import { outcome as outcomeOfOne } from './transitions.ts'

interface WaitOptions extends JsonOption {
  wait: boolean
  timeoutSecs: number
}

interface MoveOptions extends WaitOptions {
  to?: string
  hibernate?: boolean
}

interface ListOptions extends JsonOption {
  org?: string
  host?: string
  state?: DesktopState[]
  limit?: number
}

const desktop = '019a9f00-0000-7000-8000-000000000001'
const failed = { move: 'move', hibernate: 'hibernate', destroy: 'go' } as const
const doing = { move: 'moving', hibernate: 'hibernating', destroy: 'destroying' } as const

/** Adds the command and its subcommands. */
export function addAdminDesktop(command: Command, context: Context): void {
  command.description('desktops of any organisation')
  withJson(command.command('list'), `dormouse admin desktop list --host rack4-2 --state awake`)
    .description('list desktops of all organisations, oldest first')
    .option('--org <id>', 'organisation')
    .option('--host <host>', 'only those of this host, by its name or id')
    .addOption(stateOption())
    .option('--limit <n>', 'at most this many (default: 1000)', integerFrom(1, 10_000))
    .action((options: ListOptions) => list(context, options))
  withJson(command.command('get'), `dormouse admin desktop get ${desktop}`)
    .description('show one desktop')
    .argument('<id>', 'desktop')
    .action(async (id: string, options: JsonOption) => {
      const found = await context.operator().getDesktop(id, { signal: context.terminal.signal })
      context.show(options, found, () => fields({ organisation: found.org_id, ...described(found) }))
    })
  for (const [kind, description] of [
    ['hibernate', 'save a desktop’s memory and disk, and stop it'],
    ['destroy', 'delete a desktop and all its data for good'],
  ] as const)
    withJson(command.command(kind), `dormouse admin desktop ${kind} ${desktop}`)
      .description(description)
      .argument('<id>', 'desktop')
      .option('--no-wait', 'print the operation and do not wait')
      .addOption(timeoutOption())
      .action(async (id: string, options: WaitOptions) => {
        context.about.id = id
        const client = context.operator()
        const call = { wait: false, signal: context.terminal.signal }
        const begun = await (kind === 'hibernate' ? client.hibernateDesktop(id, call) : client.destroyDesktop(id, call))
        const operation = options.wait ? await settled(context, client, begun, kind, options) : begun
        context.show(options, operation, () => outcomeOfOne(operation))
      })
  withJson(command.command('move'), 'dormouse admin desktop move 019a9f00-0000-7000-8000-000000000001 --to rack4-2')
    .description('move a desktop to another host; one that is awake stays awake, with its memory')
    .argument('<id>', 'desktop')
    .option('--to <host>', 'name or id of the new host; without it the service chooses one')
    .option('--hibernate', 'hibernate it, move its files and wake it there, instead of moving it while it runs')
    .option('--no-wait', 'print the operation and do not wait')
    .addOption(timeoutOption())
    .action(async (id: string, options: MoveOptions) => {
      context.about.id = id
      const client = context.operator()
      const { signal } = context.terminal
      const body = { to: options.to, ...(options.hibernate && { mode: 'hibernate' as const }) }
      const begun = await client.moveDesktop(id, body, { signal })
      const operation = options.wait ? await settled(context, client, begun, 'move', options) : begun
      context.show(options, operation, () => outcome(operation))
    })
}

async function list(context: Context, { org, host, state, limit, json }: ListOptions): Promise<void> {
  const client = context.operator()
  const call = { signal: context.terminal.signal }
  const { desktops } = await client.listDesktops(
    { org_id: org, host_id: host && (await hostId(client, host, call)), state, limit },
    call,
  )
  const rows = desktops.map((one) => [one.id, one.org_id, one.state, one.tier, one.host_id, one.updated_at])
  const columns = ['ID', 'ORGANISATION', 'STATE', 'TIER', 'HOST', 'UPDATED']
  context.show({ json }, { desktops }, () => (rows.length ? table(columns, rows) : ''))
  if (!rows.length && !json) context.terminal.note('There are none.')
}

async function hostId(client: AdminClient, host: string, call: { signal: AbortSignal }): Promise<string> {
  const { hosts } = await client.listHosts(call)
  const [found, another] = hosts.filter(({ id, name }) => id === host || name === host)
  if (found && !another) return found.id
  throw new CliError(
    found ? `several hosts are called ${host}` : `there is no host ${host}`,
    '`dormouse admin host list` lists them with their ids',
    exitCodes.notFound,
  )
}

async function settled(
  context: Context,
  client: AdminClient,
  { id, desktop_id }: OperationJson,
  kind: keyof typeof doing,
  { timeoutSecs }: WaitOptions,
): Promise<OperationJson> {
  const { signal } = context.terminal
  const next = `\`dormouse admin operation ${id}\` shows its steps`
  const work = (show?: (text: string) => void) =>
    following(client, show, (onProgress) =>
      client.waitForOperation(id, { signal, timeoutMs: timeoutSecs * 1_000, onProgress }),
    )
  try {
    return await waiting(context, `${doing[kind]} ${desktop_id}`, next, work)
  } catch (error) {
    if (!(error instanceof OperationFailedError)) throw error
    const { cause } = error.operation as AdminOperationJson
    throw new CliError(
      `the desktop did not ${failed[kind]}: ${cause ?? error.message}`,
      next,
      exitCodes.operationFailed,
      {
        operation_id: id,
        cause_code: error.causeCode,
      },
    )
  }
}

function outcome({ id, desktop_id, state, result, progress }: OperationJson): string {
  if (!result)
    return fields({
      operation: id,
      desktop: desktop_id,
      state,
      ...(progress && { progress: progressText({ progress }) }),
    })
  const how = result.moved === 'hibernated' ? '; it was hibernated on the way' : ''
  const rest =
    result.cleanup === 'deferred' ? '; its old host is unreachable, and removes its part when it is back' : ''
  return `${desktop_id} is ${result.desktop_state} on host ${result.host_id} after ${seconds(result.duration_ms)}${how}${rest}\n`
}
