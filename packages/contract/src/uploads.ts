// Uploads that go on after an interruption, by the IETF’s draft of resumable uploads: bodies, limits and commands.
import { z } from 'zod'
import { fileQuery } from './guest.ts'
import { id } from './ids.ts'

/** The largest file. The guest's disk is the limit in practice. */
export const uploadMaxBytes = 1024 * 1024 * 1024 * 1024
/** Unfinished uploads of one desktop. */
export const uploadsMax = 16
/** After this long an upload is removed, finished or not. */
export const uploadMaxSecs = 24 * 3_600

const bytes = z.int().min(0)
/**
 * prepare: the temporary file is there. measure: how much of it. place: it has become the file, if it has `size` bytes. drop:
 * it is not there.
 */
export const uploadSteps = ['prepare', 'measure', 'place', 'drop'] as const
export type UploadStep = (typeof uploadSteps)[number]

/** An upload's temporary file, which is next to its target. */
export const uploadState = z.object({
  /** Null if there is none. */
  size: bytes.nullable(),
  /** `place` alone: it was moved into place now, or there is a file of that size already and no temporary one. */
  placed: z.enum(['now', 'before']).nullable(),
})
export type UploadState = z.infer<typeof uploadState>

/** A step as the agent has it. Without an owner, that of the folder. */
export interface UploadCommand {
  desktopId: string
  generation: number
  uploadId: string
  path: string
  step: UploadStep
  size: number | null
  mode: number | null
  owner: string | null
}
export type UploadResult = UploadState

export const uploadQuery = fileQuery.extend({
  path: z.string().describe('Absolute path of the file in the guest; no `..`, no NUL'),
})

export const uploadJson = z
  .object({
    id,
    path: z.string().describe('Absolute path in the guest'),
    complete: z.boolean().describe('Whether the file is in its place'),
    offset: z.int().describe('Bytes that the guest has'),
    length: z.int().nullable().describe('Bytes of the whole file, where they are known'),
    expires_at: z.string().describe('When an unfinished upload is removed'),
  })
  .meta({
    id: 'Upload',
    examples: [
      {
        id: '019a9f00-0000-7000-8000-000000000001',
        path: '/srv/disk.img',
        complete: false,
        offset: 33554432,
        length: 1073741824,
        expires_at: '2026-11-03T09:30:00.000Z',
      },
    ],
  })
export type UploadJson = z.infer<typeof uploadJson>
