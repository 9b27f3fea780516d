// admin operation: the timeline of an operation, and why it failed. For operators.
import type { AdminOperationJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, withJson } from '../options.ts'
import { fields, seconds, table } from '../terminal.ts'

/** Adds the command. */
export function addOperationCause(command: Command, { operator, show, terminal }: Context): void {
  withJson(command, 'dormouse admin operation 019a9f00-0000-7000-8000-0000000000aa')
    .description('show why an operation failed, with the original error, and how long each of its steps took')
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
  return timeline.length > 0
    ? `${facts}\n${table(['STEP', 'PHASE', 'BEGAN', 'TOOK', 'SHARE'], rowsOf(operation))}`
    : facts
}

type Row = (string | null)[]

/** From the acceptance over the steps to the settlement, each with its duration and its share of the whole. */
function rowsOf({ timeline, created_at, settled_at, state }: AdminOperationJson): Row[] {
  const msBetween = (from: string, to: string) => Math.max(0, Date.parse(to) - Date.parse(from))
  const totalMs = settled_at === null ? null : msBetween(created_at, settled_at)
  const row = (step: string, phase: string | null, at: string, ms: number | null): Row => {
    const share = ms === null || !totalMs ? null : `${Math.round((100 * ms) / totalMs)} %`
    return [step, phase, at, ms === null ? null : took(ms), share]
  }
  const steps = timeline.map(({ step, way, at, duration_ms = null }) => row(step, way, at, duration_ms))
  const accepted = row('accepted', null, created_at, msBetween(created_at, timeline[0]!.at))
  return [accepted, ...steps, ...(settled_at === null ? [] : [row('settled', state, settled_at, totalMs)])]
}

const took = (ms: number): string => (ms < 1_000 ? `${ms} ms` : seconds(ms))
