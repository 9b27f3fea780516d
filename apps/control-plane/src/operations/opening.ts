// Begins an operation in the transaction that accepts it, if it need not wait. That saves the commit of its first mark, and for
// a wake also that of its placement.
import { type Findings, nextStep, type Opening, type OperationDefinition } from './definition.ts'
import type { Begun, NewOperation } from './store.ts'
import type { Slot, WorkQueue } from './work-queue.ts'

export interface Opened {
  /** The caller hands it to the engine, or releases it if the transaction fails. */
  slot: Slot
  begun: Begun
  write: Opening<Findings>['write']
}

/** Undefined if the operation must wait, or if its first step cannot run in that transaction. */
export function open(operation: NewOperation, definition: OperationDefinition, queue: WorkQueue): Opened | undefined {
  const first = definition.steps[0]!
  const input = definition.input.parse(operation.input)
  const opening = first.advances
    ? definition.opens?.({ ...operation, input })
    : { found: {}, write: async () => undefined }
  if (!opening) return undefined
  const position = { input, step: 0, findings: opening.found }
  const slot = queue.tryEnter({ hostId: definition.hostOf(position), overtakes: definition.overtakes === true })
  if (!slot) return undefined
  const step = first.advances ? nextStep(definition, position) : 0
  const steps = [...new Set([first, definition.steps[step]!])].map(({ name }) => name)
  return { slot, begun: { step, steps, findings: opening.found }, write: opening.write }
}
