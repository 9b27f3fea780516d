// An operation: the pollable record of a lifecycle transition, and the bodies that ask for one.
import { z } from 'zod'
import { desktopState, time } from './desktops.ts'
import { id } from './ids.ts'

export const operationKinds = ['wake', 'hibernate', 'destroy'] as const
export const operationKind = z.enum(operationKinds)
export type OperationKind = z.infer<typeof operationKind>

export const operationStates = ['pending', 'running', 'succeeded', 'failed'] as const
export const operationState = z.enum(operationStates)
export type OperationState = z.infer<typeof operationState>

/** What a wake brought back: the guest's memory, its disk alone, or a fresh image. */
export const resumedFrom = z.enum(['memory', 'disk', 'image'])
export type ResumedFrom = z.infer<typeof resumedFrom>

export const operationResult = z
  .object({
    desktop_state: desktopState,
    generation: z.int(),
    generation_id: id.nullable(),
    host_id: id.nullable(),
    duration_ms: z.int().describe('From acceptance to settling'),
    resumed_from: resumedFrom.optional().describe('Of a wake: what came back'),
    cleanup: z
      .enum(['done', 'deferred'])
      .optional()
      .describe('Of a destroy: `deferred` while the host is out of reach'),
  })
  .meta({ id: 'OperationResult' })
export type OperationResult = z.infer<typeof operationResult>

export const operationJson = z
  .object({
    id: id.describe('Operation identifier'),
    desktop_id: id.describe('Desktop the operation acts on'),
    kind: operationKind,
    state: operationState,
    result: operationResult.nullable().describe('Null until the operation succeeded'),
    error: z.string().nullable().describe('Null unless the operation failed: what happened, and the remedy'),
    created_at: time,
    updated_at: time,
    settled_at: time.nullable(),
  })
  .meta({ id: 'Operation' })
export type OperationJson = z.infer<typeof operationJson>

const expectedGeneration = z
  .int()
  .min(0)
  .nullish()
  .describe('Fencing generation the caller expects the desktop to be on; a stale value gives 409')

/** Unknown fields are refused: a misspelt `expected_generation` must not be a silent no-op. */
export const mutationBody = z.strictObject({ expected_generation: expectedGeneration }).meta({ id: 'MutationBody' })

export const wakeBody = z
  .strictObject({
    expected_generation: expectedGeneration,
    discard_memory: z
      .boolean()
      .nullish()
      .describe('Give the saved memory up and boot from disk. Never done unless asked for.'),
  })
  .meta({ id: 'WakeBody' })
export type WakeBody = z.infer<typeof wakeBody>
