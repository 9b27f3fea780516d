// wake, hibernate, destroy: asked for, and waited for unless told otherwise.
import type { Client, OperationJson, OperationKind, WakeBody } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError } from '../failures.ts'
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

interface TransitionOptions extends JsonOption, KeyOption {
  wait: boolean
  expectedGeneration?: number
  timeoutSecs: number
  discardMemory?: boolean
}

const doing = { wake: 'waking', hibernate: 'hibernating', destroy: 'destroying' } as const

/** Adds the three commands that change a desktop's state. */
export function addTransitions(program: Command, context: Context): void {
  add(program, context, 'wake', 'wake a desktop, and wait until its guest answers and is ready').option(
    '--discard-memory',
    'give the saved memory up and boot from disk',
  )
  add(program, context, 'hibernate', 'save a desktop’s memory and disk, and wait until nothing runs').alias('pause')
  add(program, context, 'destroy', 'remove a desktop with all it holds, for good').alias('kill')
}

function add(program: Command, context: Context, kind: OperationKind, description: string): Command {
  return withJson(program.command(kind), `dormouse ${kind} 019a9f00-0000-7000-8000-000000000001`)
    .description(description)
    .argument('<id>', 'desktop')
    .option('--no-wait', 'answer with the operation’s handle at once')
    .addOption(timeoutOption())
    .option('--expected-generation <n>', 'refuse unless the desktop is on this generation', integerFrom(0))
    .addOption(keyOption())
    .action((id: string, options: TransitionOptions) => run(context, kind, id, options))
}

async function run(context: Context, kind: OperationKind, id: string, options: TransitionOptions): Promise<void> {
  context.about.id = id
  const client = context.customer()
  const body: WakeBody = { expected_generation: options.expectedGeneration, discard_memory: options.discardMemory }
  const operation = options.wait
    ? await settle(context, client, kind, id, body, { ...options, timeoutMs: options.timeoutSecs * 1000 })
    : await ask(context, client, kind, id, body, options)
  context.show(options, operation, () => outcome(operation))
}

function ask(context: Context, client: Client, kind: OperationKind, id: string, body: WakeBody, options: KeyOption) {
  const call = {
    idempotencyKey: options.idempotencyKey,
    signal: context.terminal.signal,
    onResponse: replayNote(context, options),
  }
  if (kind === 'wake') return client.wakeDesktop(id, body, call)
  return kind === 'hibernate' ? client.hibernateDesktop(id, body, call) : client.destroyDesktop(id, body, call)
}

/** Asks and waits, with a spinner; a Ctrl-C says that the operation goes on without us. */
export async function settle(
  context: Context,
  client: Client,
  kind: OperationKind,
  id: string,
  body: WakeBody,
  { idempotencyKey, timeoutMs }: KeyOption & { timeoutMs?: number },
): Promise<OperationJson> {
  const { signal } = context.terminal
  const onResponse = replayNote(context, { idempotencyKey })
  const work = () => client.settle(kind, id, body, { idempotencyKey, timeoutMs, signal, onResponse })
  return await waiting(context, `${doing[kind]} ${id}`, `\`dormouse operations ${id}\` shows how it ends.`, work)
}

/** Runs a wait with a spinner; what was asked of the service goes on when we stop waiting, and the failure says so. */
export async function waiting<T>(context: Context, label: string, next: string, work: () => Promise<T>): Promise<T> {
  const { terminal } = context
  try {
    return await terminal.during(label, work)
  } catch (error) {
    const { reason } = terminal.signal
    if (error !== reason || !(reason instanceof CliError)) throw error
    throw new CliError('stopped waiting; what was asked for goes on.', next, reason.exitCode)
  }
}

/** What came of an operation, in one line; its handle while it is under way. */
export function outcome({ id, desktop_id, kind, state, result, error }: OperationJson): string {
  if (!result) return fields({ operation: id, desktop: desktop_id, kind, state, error })
  const came = result.resumed_from ? `; ${cameBack[result.resumed_from]}` : ''
  const unready = result.ready === false ? '; not ready yet: its image’s own check still fails' : ''
  const deferred =
    result.cleanup === 'deferred' ? '; its host is out of reach, or was removed: if it comes back, it cleans up' : ''
  const after = seconds(result.duration_ms)
  return `${desktop_id} is ${result.desktop_state} after ${after}${came}${unready}${deferred} (generation ${result.generation})\n`
}

const cameBack = {
  memory: 'its memory came back',
  disk: 'booted from its disk, without the memory',
  image: 'booted anew from its image',
} as const
