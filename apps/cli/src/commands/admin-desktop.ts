// admin desktop: what operators do to one desktop of any organisation.
import { type AdminClient, type AdminOperationJson, OperationFailedError, type OperationJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type JsonOption, timeoutOption, withJson } from '../options.ts'
import { fields, seconds } from '../terminal.ts'
import { following, progressText } from './following.ts'
import { waiting } from './transitions.ts'

interface MoveOptions extends JsonOption {
  to?: string
  hibernate?: boolean
  wait: boolean
  timeoutSecs: number
}

/** Adds the command and its subcommands. */
export function addAdminDesktop(command: Command, context: Context): void {
  command.description('one desktop of any organisation')
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
      const operation = options.wait ? await settled(context, client, begun, options) : begun
      context.show(options, operation, () => outcome(operation))
    })
}

async function settled(
  context: Context,
  client: AdminClient,
  { id, desktop_id }: OperationJson,
  { timeoutSecs }: MoveOptions,
): Promise<OperationJson> {
  const { signal } = context.terminal
  const next = `\`dormouse admin operation ${id}\` shows its steps`
  const work = (show?: (text: string) => void) =>
    following(client, show, (onProgress) =>
      client.waitForOperation(id, { signal, timeoutMs: timeoutSecs * 1_000, onProgress }),
    )
  try {
    return await waiting(context, `moving ${desktop_id}`, next, work)
  } catch (error) {
    if (!(error instanceof OperationFailedError)) throw error
    const { cause } = error.operation as AdminOperationJson
    throw new CliError(`the desktop did not move: ${cause ?? error.message}`, next, exitCodes.operationFailed, {
      operation_id: id,
      cause_code: error.causeCode,
    })
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
