// What a step stores in its own transaction: what it has found, and how far the operation has come.
import type { Db } from '../db/pool.ts'
import { type Findings, nextStep, type OperationDefinition } from './definition.ts'
import type { Running } from './running.ts'
import * as store from './store.ts'

/** Marks in the transaction of a step that the next one begins which has something to do. */
export async function advance(
  { row, deadline, marked: before }: Running,
  definition: OperationDefinition,
  tx: Db,
  found: Findings,
): Promise<void> {
  const findings = { ...row.findings, ...found }
  const next = nextStep(definition, { ...row, findings })
  const begun = [row.step, next].filter((at) => at > before).map((at) => definition.steps[at]!.name)
  const leftMs = deadline - performance.now()
  const marked = { ...row, step: next, leftMs, findings }
  if (!(await store.mark(tx, marked, begun))) throw store.settledMeanwhile()
}

/** Stores what a step has found, and that it goes on. */
export async function note(
  { row, deadline }: Running,
  definition: OperationDefinition,
  tx: Db,
  found: Findings,
): Promise<void> {
  const marked = { ...row, leftMs: deadline - performance.now(), findings: { ...row.findings, ...found } }
  if (!(await store.mark(tx, marked, [definition.steps[row.step]!.name]))) throw store.settledMeanwhile()
}
