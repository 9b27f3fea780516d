// An operation: the pollable record of a lifecycle transition, and the bodies that request one.
import { z } from 'zod'
import { desktopState, tier, time } from './desktops.ts'
import { id } from './ids.ts'
import { refusalCode } from './refusals.ts'

/** What callers can request of a desktop. */
export const requestKinds = ['wake', 'hibernate', 'destroy'] as const
export type RequestKind = (typeof requestKinds)[number]

/** `move` takes a desktop to another host. Its state stays, and callers never request one. `restore` brings back a copy. */
export const operationKinds = [...requestKinds, 'move', 'restore'] as const
export const operationKind = z.enum(operationKinds)
export type OperationKind = z.infer<typeof operationKind>

export const isRequestKind = (kind: OperationKind): kind is RequestKind =>
  requestKinds.some((request) => request === kind)

/** Who requested it. A later release may add more. */
export const operationRequester = z.enum(['caller', 'operator', 'drain', 'idle', 'host', 'schedule'])
export type OperationRequester = z.infer<typeof operationRequester>

export const operationStates = ['pending', 'running', 'succeeded', 'failed'] as const
export const operationState = z.enum(operationStates)
export type OperationState = z.infer<typeof operationState>

/** What a wake restored: the guest's memory, its disk alone, or a fresh image. */
export const resumedFrom = z.enum(['memory', 'disk', 'image'])
export type ResumedFrom = z.infer<typeof resumedFrom>

/**
 * How a wake got its guest to run: a warm copy of its memory went on, its saved memory was restored, a template of its image was
 * used, or it was booted.
 */
export const wakePath = z.enum(['warm', 'restore', 'template', 'boot'])
export type WakePath = z.infer<typeof wakePath>

export const operationResult = z
  .object({
    desktop_state: desktopState,
    generation: z.int(),
    generation_id: id.nullable(),
    host_id: id.nullable(),
    duration_ms: z.int().describe('From acceptance to settling'),
    resumed_from: resumedFrom.optional().describe('Of a wake: what was restored'),
    path: wakePath
      .optional()
      .describe(
        'Of a wake: `warm` (a copy of its memory was still in its host’s memory), `restore`, `template` or `boot`. Absent where its host does not report it',
      ),
    ready: z
      .boolean()
      .optional()
      .describe(
        'Of a wake: `false` if the image defines a readiness check (such as a session on its screen) that did not pass in time. The desktop is awake all the same. Absent where its host does not report it',
      ),
    tier: tier.optional().describe('Of a wake while another tier waited: the tier that the desktop has now'),
    next_tier: tier
      .nullable()
      .optional()
      .describe('With `tier`: what still waits, as this wake used a saved memory; `discard_memory` boots into it'),
    disk_gib: z.int().optional().describe('The same of its disk: the size that it has now'),
    next_disk_gib: z.int().nullable().optional().describe('With `disk_gib`: the size that still waits for a boot'),
    restored_from: z
      .object({ copy_id: id, taken_at: time })
      .optional()
      .describe('Of a restore: the copy that the desktop has now'),
    cleanup: z
      .enum(['done', 'deferred'])
      .optional()
      .describe('Of a destroy, or of the old host of a move: `deferred` while the host is unreachable'),
    moved: z
      .enum(['live', 'hibernated', 'asleep'])
      .optional()
      .describe(
        'Of a move. `live`: it moved while it ran. `hibernated`: it was hibernated for the move, and woken on the new host. `asleep`: it slept',
      ),
  })
  .meta({ id: 'OperationResult' })
export type OperationResult = z.infer<typeof operationResult>

export const operationPhases = [
  'waiting',
  'placing',
  'fetching_image',
  'trying_another_host',
  'making_disk',
  'starting',
  'restoring',
  'booting',
  'waiting_for_guest',
  'saving',
  'removing',
  'moving',
  'relaying',
  'undoing',
] as const
export const operationPhase = z.enum(operationPhases)
export type OperationPhase = z.infer<typeof operationPhase>

/** Additive: clients must accept further phases. */
export const operationProgress = z
  .object({
    phase: operationPhase.describe(
      'What is being done. `waiting`: for a free slot on its host; that takes none of the operation’s own time. `relaying`: moving, through the control plane and so slowly, since the hosts cannot reach each other. A later release may add phases',
    ),
    done_bytes: z
      .int()
      .min(0)
      .nullable()
      .describe('Of a save, a restore or the fetch of an image, where the host reports it'),
    total_bytes: z
      .int()
      .min(0)
      .nullable()
      .describe('Of a save, a restore or the fetch of an image, where the host reports it'),
    queued_behind: z
      .int()
      .min(0)
      .nullable()
      .describe('While it waits: about how many operations come before it. Only the leader knows it'),
  })
  .meta({ id: 'OperationProgress' })
export type OperationProgress = z.infer<typeof operationProgress>

export const operationJson = z
  .object({
    id: id.describe('Operation identifier'),
    desktop_id: id.describe('Desktop the operation acts on'),
    kind: operationKind.describe(
      '`move` takes the desktop to another host; its state and generation stay. `restore` brings back one of its copies',
    ),
    requested_by: operationRequester.describe(
      '`caller`: a request of this API. `operator` and `drain`: the operators of the service. `idle`: the service itself, after the desktop’s idle timeout. `schedule`: the desktop’s schedule, or its end. `host`: the desktop’s host, because its guest had suspended itself, or was paused. A later release may add values',
    ),
    state: operationState,
    result: operationResult.nullable().describe('Null until the operation succeeded'),
    error: z.string().nullable().describe('Null unless the operation failed: what happened, and the remedy'),
    error_code: refusalCode.nullable().describe('Null unless the operation failed: why, for programs'),
    progress: operationProgress
      .nullable()
      .describe('How far it has come; null once it has settled. A replica that does not lead knows the phase only'),
    created_at: time,
    updated_at: time,
    settled_at: time.nullable(),
  })
  .meta({
    id: 'Operation',
    examples: [
      {
        id: '01980f40-1b2b-7f3d-b2c1-9a8b7c6d5e4f',
        desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
        kind: 'wake',
        requested_by: 'caller',
        state: 'succeeded',
        result: {
          desktop_state: 'awake',
          generation: 1,
          generation_id: '01980f40-1b2c-7a00-8e11-0a1b2c3d4e5f',
          host_id: '01980a00-9f8e-7d6c-8b5a-493827160504',
          duration_ms: 7_512,
          resumed_from: 'image',
          ready: true,
        },
        error: null,
        error_code: null,
        progress: null,
        created_at: '2026-01-01T12:02:00.000Z',
        updated_at: '2026-01-01T12:02:07.512Z',
        settled_at: '2026-01-01T12:02:07.512Z',
      },
    ],
  })
export type OperationJson = z.infer<typeof operationJson>

/** The record as operators see it: with the cause of a failure, and when its steps began. */
export const adminOperationJson = operationJson
  .extend({
    org_id: id,
    generation: z.int(),
    turn: z.int(),
    cause: z.string().nullable().describe('The original error of a failure; never shown to customers'),
    request_id: z.string().nullable().describe('Identifies the request in the logs of the control plane and the host'),
    findings: z.record(z.string(), z.unknown()).describe('Results of its steps so far'),
    timeline: z
      .array(
        z.object({
          step: z.string(),
          way: z.enum(['run', 'undo']),
          at: time,
          duration_ms: z
            .number()
            .nullable()
            .optional()
            .describe('Until the next one began, or the operation settled; null while it runs'),
        }),
      )
      .describe('When each step, and each undo of a step, began, and how long it took'),
  })
  .meta({ id: 'AdminOperation' })
export type AdminOperationJson = z.infer<typeof adminOperationJson>

export const operationListJson = z.object({ operations: z.array(operationJson) }).meta({ id: 'OperationList' })

const expectedGeneration = z
  .int()
  .min(0)
  .nullish()
  .describe('Fencing generation the caller expects the desktop to be on; a stale value gives 409')

const ensure = (result: string) =>
  z
    .boolean()
    .nullish()
    .describe(
      `Ask for the result: ${result}. A key then belongs to the operation that its request has begun; a repeat of a request that has begun none looks again`,
    )

/** Unknown fields are refused: a misspelt `expected_generation` must not be a silent no-op. */
export const mutationBody = z
  .strictObject({ expected_generation: expectedGeneration })
  .meta({ id: 'MutationBody', examples: [{}, { expected_generation: 1 }] })
export type MutationBody = z.infer<typeof mutationBody>

export const wakeBody = z
  .strictObject({
    expected_generation: expectedGeneration,
    discard_memory: z.boolean().nullish().describe('Discard the saved memory and boot from disk'),
    ensure: ensure(
      'where the desktop is awake, 200 with its last wake; where it is waking, that wake; where it is hibernating, a wake that waits behind that',
    ),
  })
  .meta({ id: 'WakeBody', examples: [{}, { expected_generation: 1 }, { discard_memory: true }, { ensure: true }] })
export type WakeBody = z.infer<typeof wakeBody>

export const hibernateBody = mutationBody
  .extend({
    ensure: ensure(
      'where the desktop is hibernated, 200 with its last hibernation; where it is hibernating, that hibernation',
    ),
  })
  .meta({ id: 'HibernateBody', examples: [{}, { expected_generation: 1 }, { ensure: true }] })
export type HibernateBody = z.infer<typeof hibernateBody>
