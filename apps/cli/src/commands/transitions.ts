// wake, hibernate, destroy: requests the transition, and waits for it unless --no-wait is given.
import type { Client, OperationJson, RequestKind, WakeBody } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import {
  integerFrom,
  type JsonOption,
  type KeyOption,
  keyOption,
  replayNote,
  timeoutOption,
  withJson,
} from '../options.ts'
import { fields, seconds } from '../terminal.ts'
import { bulk, requireSelect, selectOption } from './bulk.ts'
import { following, progressText, waiting } from './following.ts'

interface TransitionOptions extends JsonOption, KeyOption {
  wait: boolean
  expectedGeneration?: number
  timeoutSecs: number
  discardMemory?: boolean
  select?: string
  dryRun?: boolean
}

const doing = { wake: 'waking', hibernate: 'hibernating', destroy: 'destroying' } as const

/** Adds the three commands that change a desktop's state. */
export function addTransitions(program: Command, context: Context): void {
  add(program, context, 'wake', 'wake a desktop unless it is awake, and wait until its guest is ready').option(
    '--discard-memory',
    'discard the saved memory and boot from disk',
  )
  add(program, context, 'hibernate', 'save a desktop’s memory and disk and wait until it has stopped').alias('pause')
  add(program, context, 'destroy', 'delete a desktop and all its data for good').alias('kill')
}

function add(program: Command, context: Context, kind: RequestKind, description: string): Command {
  return withJson(program.command(kind), `dormouse ${kind} 019a9f00-0000-7000-8000-000000000001`)
    .description(description)
    .argument('[id]', 'desktop')
    .addOption(
      selectOption('all whose labels match, such as team=qa,run!=42').conflicts([
        ...['expectedGeneration', 'discardMemory', 'timeoutSecs'],
      ]),
    )
    .option('--dry-run', 'with --select: print what would be done, and do nothing')
    .option('--no-wait', 'print the operation and do not wait')
    .addOption(timeoutOption())
    .option('--expected-generation <n>', 'fail unless the desktop is on this generation', integerFrom(0))
    .addOption(keyOption())
    .action((id: string | undefined, options: TransitionOptions) => run(context, kind, id, options))
}

async function run(
  context: Context,
  kind: RequestKind,
  id: string | undefined,
  options: TransitionOptions,
): Promise<void> {
  if (options.select !== undefined || id === undefined) return bulk(context, { action: kind }, id, options)
  requireSelect(kind, options)
  context.about.id = id
  const client = context.customer()
  const { discardMemory, expectedGeneration, timeoutSecs, idempotencyKey } = options
  const ensure = kind === 'wake' && !discardMemory
  const body: WakeBody = {
    expected_generation: expectedGeneration,
    discard_memory: discardMemory,
    ...(ensure && { ensure }),
  }
  let answers = 0
  const onProgress = () => void answers++
  const operation = options.wait
    ? await settle(context, client, kind, id, body, { idempotencyKey, timeoutMs: timeoutSecs * 1000, onProgress })
    : await ask(context, client, kind, id, body, options)
  // A wake that this command has begun never settles in its first answer.
  const wasAwake = ensure && idempotencyKey === undefined && answers <= 1 && operation.state === 'succeeded'
  context.show(options, operation, () => (wasAwake ? `${id} is awake already\n` : outcome(operation)))
}

function ask(context: Context, client: Client, kind: RequestKind, id: string, body: WakeBody, options: KeyOption) {
  const call = {
    idempotencyKey: options.idempotencyKey,
    signal: context.terminal.signal,
    onResponse: replayNote(context, options),
  }
  if (kind === 'wake') return client.wakeDesktop(id, body, call)
  const { expected_generation } = body
  const ask = kind === 'hibernate' ? client.hibernateDesktop : client.destroyDesktop
  return ask(id, { expected_generation }, call)
}

/** Requests and waits, with a spinner. Ctrl-C stops the wait, not the operation. */
export async function settle(
  context: Context,
  client: Client,
  kind: RequestKind,
  id: string,
  body: WakeBody,
  { idempotencyKey, timeoutMs, onProgress }: KeyOption & { timeoutMs?: number; onProgress?: () => void },
): Promise<OperationJson> {
  const { signal } = context.terminal
  const onResponse = replayNote(context, { idempotencyKey })
  const work = (show?: (text: string) => void) =>
    following(client, show, (onShown) => {
      const seen = (operation: OperationJson) => {
        onProgress?.()
        onShown?.(operation)
      }
      return client.settle(kind, id, body, { idempotencyKey, timeoutMs, signal, onResponse, onProgress: seen })
    })
  return await waiting(context, `${doing[kind]} ${id}`, `\`dormouse operations ${id}\` shows the outcome`, work)
}

/** An operation's outcome in one line; its fields while it is in progress. */
export function outcome({ id, desktop_id, kind, state, result, error, progress }: OperationJson): string {
  const now = progress && { progress: progressText({ progress }) }
  if (!result) return fields({ operation: id, desktop: desktop_id, kind, state, ...now, error })
  const how = (result.path && byPath[result.path]) ?? (result.resumed_from && resumed[result.resumed_from])
  const from = how ? `; ${how}` : ''
  const unready = result.ready === false ? '; not ready yet: its image’s own check still fails' : ''
  const { tier, next_tier, disk_gib, next_disk_gib } = result
  const waiting = [
    next_tier && `tier ${tier}, not ${next_tier}`,
    next_disk_gib && `${disk_gib} GiB of disk, not ${next_disk_gib}`,
  ]
  const said = waiting.filter(Boolean).join(', and ')
  const size = said && `; it has ${said}, until a boot (--discard-memory)`
  const deferred =
    result.cleanup === 'deferred' ? '; its host is unreachable or removed, and cleans up when it is back' : ''
  const after = seconds(result.duration_ms)
  return `${desktop_id} is ${result.desktop_state} after ${after}${from}${size}${unready}${deferred} (generation ${result.generation})\n`
}

/** Only for paths that mean more than where the guest came from. */
const byPath: { [P in NonNullable<NonNullable<OperationJson['result']>['path']>]?: string } = {
  warm: 'resumed from a warm copy of its memory',
  template: 'began with a template of its image',
}
const resumed = {
  memory: 'its memory was restored',
  disk: 'booted from its disk, without its memory',
  image: 'booted from its image',
} as const
