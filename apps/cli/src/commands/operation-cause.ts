// admin operation: why an operation failed, and when its steps began. For operators.
import type { AdminOperationJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'

/** Adds the command. */
export function addOperationCause(command: Command, { operator, show, terminal }: Context): void {
  withJson(command, 'dormouse admin operation 019a9f00-0000-7000-8000-0000000000aa')
    .description('show why an operation failed, with the original error, and when its steps began')
    .argument('<id>', 'operation')
    .action(async (id: string, options: JsonOption) => {
      const found = await operator().getOperation(id, { signal: terminal.signal })
      show(options, found, () => about(found))
    })
}

function about(operation: AdminOperationJson): string {
  const { timeline, findings } = operation
  const known = Object.entries(findings).map(([name, value]) => `${name} ${JSON.stringify(value)}`)
  const facts = fields({
    operation: operation.id,
    desktop: operation.desktop_id,
    organisation: operation.org_id,
    kind: operation.kind,
    state: operation.state,
    cause: operation.cause,
    'customer sees': operation.error,
    code: operation.error_code,
    findings: known.join(', '),
    request: operation.request_id,
    accepted: operation.created_at,
    settled: operation.settled_at,
  })
  const rows = timeline.map(({ step, way, at }) => [step, way, at])
  return rows.length > 0 ? `${facts}\n${table(['STEP', 'PHASE', 'BEGAN'], rows)}` : facts
}
