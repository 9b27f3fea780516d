// Changes below a folder of a guest, as they happen: in the API and between control plane and agent.
import { z } from 'zod'
import { listOf } from './bounds.ts'
import { flag } from './desktops.ts'

/** How many watches one desktop may have. A watch that nobody reads ends ten minutes later. */
export const watchesMax = 16
/** The folders below a recursive one. */
export const watchedFoldersMax = 8_192
/** What a guest returns for one request. */
export const watchReadMaxBytes = 64 * 1024
/** More changes than fit into `watchReadMaxBytes`. */
const mostChanges = 8_192
const pathMaxLength = 8_192

export const changeTypes = ['created', 'modified', 'written', 'attributes', 'removed', 'moved'] as const

/** Which watch, how far, and of what: `<id>.<offset>.<digest>`. */
export const watchCursor = z
  .string()
  .max(80)
  .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.\d{1,15}\.[\w-]{8}$/, 'must be a cursor of this route')

export const watchQuery = z.object({
  path: z.string().describe('Absolute path of a folder in the guest; no `..`, no NUL'),
  recursive: flag
    .optional()
    .describe(`\`true\`: also everything below it in the same file system, ${watchedFoldersMax} folders at most`),
  cursor: watchCursor.optional().describe('Where the last answer, or event, ended. Without it, from now on'),
  wait_secs: z
    .string()
    .regex(/^([0-9]|[1-5][0-9]|60)$/, 'must be 0 to 60')
    .transform(Number)
    .optional()
    .meta({ type: 'integer', minimum: 0, maximum: 60 })
    .describe('Wait so long for a change; at most 60'),
})

export const changeJson = z
  .object({
    type: z
      .enum([...changeTypes, 'overflow'])
      .describe(
        '`written`: a file that was open for writing was closed. `attributes`: mode, owner or times. `overflow`: changes may be missing here; list the folder again',
      ),
    path: z.string().max(pathMaxLength).nullable().describe('Absolute path in the guest; null for `overflow`'),
    exact_path: z.boolean().describe('False if the name is not UTF-8: other bytes are U+FFFD here'),
    folder: z.boolean(),
    to: z.string().max(pathMaxLength).nullable().describe('Of `moved`: the new path; otherwise null'),
  })
  .meta({
    id: 'FileChange',
    examples: [{ type: 'written', path: '/srv/report.txt', exact_path: true, folder: false, to: null }],
  })
export type ChangeJson = z.infer<typeof changeJson>

/** `path` is absolute, in the guest. */
export const watchedFolder = z.object({ path: z.string(), recursive: z.boolean() })
export type WatchedFolder = z.infer<typeof watchedFolder>

/** What a guest has noted of a watch, up to the offset `next`. */
export const seenChanges = z.object({
  changes: listOf(changeJson, mostChanges),
  next: z.int().min(0),
  /** Some changes before these are not kept. */
  missed: z.boolean(),
  /** Nothing follows: the guest booted, it has too much to watch, or nobody has read for too long. */
  ended: z.boolean(),
})
export type SeenChanges = z.infer<typeof seenChanges>

export const changesJson = z
  .object({ changes: z.array(changeJson).describe('In their order'), cursor: z.string().describe('Read on from here') })
  .meta({
    id: 'FileChangePage',
    examples: [
      {
        changes: [{ type: 'written', path: '/srv/report.txt', exact_path: true, folder: false, to: null }],
        cursor: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80.17.LPMUzhXx',
      },
    ],
  })
export type ChangesJson = z.infer<typeof changesJson>
