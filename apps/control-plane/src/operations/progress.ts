// How far the operations of this replica have come, as callers see it. Kept in memory: another replica shows what the stored
// step implies. Knows no desktop.
import type { OperationPhase, OperationProgress, Report } from '@dormouse/contract'
import { type Findings, type OperationDefinition, read } from './definition.ts'
import { isSettled, type OperationRow } from './store.ts'

/** What a host reports of an operation. */
export type Reported = Pick<Report<'operation.progress'>, 'phase' | 'doneBytes' | 'totalBytes'>

const phases: Record<Reported['phase'], OperationPhase> = {
  fetching: 'fetching_image',
  disk: 'making_disk',
  restoring: 'restoring',
  booting: 'booting',
  'waiting-for-guest': 'waiting_for_guest',
  saving: 'saving',
  syncing: 'saving',
  removing: 'removing',
  moving: 'moving',
  relaying: 'relaying',
}

export interface ProgressOptions {
  definitionOf(row: OperationRow): OperationDefinition
  /** How many operations get a slot before this one; undefined if it does not wait. */
  ahead(id: string): number | undefined
}

export class Progress {
  readonly #options: ProgressOptions
  /** What the host reported last of each operation, and at which step. */
  readonly #reported = new Map<string, Reported & { step: number }>()

  constructor(options: ProgressOptions) {
    this.#options = options
  }

  /** Takes the host's report about an operation that this replica runs. */
  report({ id, step }: OperationRow, { phase, doneBytes, totalBytes }: Reported): void {
    this.#reported.set(id, { phase, doneBytes, totalBytes, step })
  }

  forget(id: string): void {
    this.#reported.delete(id)
  }

  /** Null once it has settled. `row` is as it was read; `running` as the engine has it, if it runs here. */
  of(row: OperationRow, running: OperationRow<object, Findings> | undefined): OperationProgress | null {
    if (isSettled(row)) return null
    if (row.behind !== null) return told('waiting', { behind: 1 })
    const ahead = this.#options.ahead(row.id)
    if (ahead !== undefined || (!running && row.state === 'pending')) return told('waiting', { behind: ahead ?? null })
    const { undoing, step, id } = running ?? row
    if (undoing) return told('undoing')
    const reported = this.#reported.get(id)
    if (reported?.step === step) return told(phases[reported.phase], reported)
    const definition = this.#options.definitionOf(row)
    return told(definition.steps[step]?.phase(running ?? read(definition, row)) ?? 'waiting')
  }
}

const told = (
  phase: OperationPhase,
  { doneBytes = null, totalBytes = null, behind = null }: Partial<Reported> & { behind?: number | null } = {},
): OperationProgress => ({ phase, done_bytes: doneBytes, total_bytes: totalBytes, queued_behind: behind })
