// operations, operation: a desktop's operations and their outcomes.
import type { OperationJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, timeoutOption, withJson } from '../options.ts'
import { seconds, table } from '../terminal.ts'
import { following, waiting } from './following.ts'
import { outcome } from './transitions.ts'

/** Adds both commands. */
export function addOperations(program: Command, context: Context): void {
  withJson(program.command('operations'), 'dormouse operations 019a9f00-0000-7000-8000-000000000001')
    .description('list a desktop’s operations, newest first')
    .argument('<id>', 'desktop')
    .action((id: string, options: JsonOption) => list(context, id, options))

  withJson(program.command('operation'), 'dormouse operation 019a9f00-0000-7000-8000-0000000000aa --wait')
    .description('show one operation')
    .argument('<operation>', 'operation')
    .option('--wait', 'wait until it succeeds or fails')
    .addOption(timeoutOption())
    .action((id: string, options: JsonOption & { wait?: boolean; timeoutSecs: number }) => get(context, id, options))
}

async function list(context: Context, id: string, options: JsonOption): Promise<void> {
  context.about.id = id
  const { operations } = await context.customer().listOperations(id, { signal: context.terminal.signal })
  context.show(options, { operations }, () => (operations.length ? listing(operations) : ''))
  if (!operations.length && !options.json) context.terminal.note('This desktop has no operations yet.')
}

function listing(operations: OperationJson[]): string {
  const rows = operations.map(({ id, kind, state, created_at, result, error }) => [
    id,
    kind,
    state,
    created_at,
    result ? seconds(result.duration_ms) : null,
    error ?? result?.resumed_from ?? result?.desktop_state,
  ])
  return table(['ID', 'KIND', 'STATE', 'REQUESTED', 'TOOK', 'OUTCOME'], rows)
}

async function get(
  context: Context,
  id: string,
  options: JsonOption & { wait?: boolean; timeoutSecs: number },
): Promise<void> {
  const { signal } = context.terminal
  const client = context.customer()
  const timeoutMs = options.timeoutSecs * 1000
  const work = (show?: (text: string) => void) =>
    following(client, show, (onProgress) => client.waitForOperation(id, { timeoutMs, signal, onProgress }))
  const operation = options.wait
    ? await waiting(context, `waiting for ${id}`, `\`dormouse operation ${id}\` shows the outcome`, work)
    : await client.getOperation(id, { signal })
  context.show(options, operation, () => outcome(operation))
}
