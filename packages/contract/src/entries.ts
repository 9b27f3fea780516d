// Files and folders of a guest as entries: listing and changing them, in the API and over the link.
import { z } from 'zod'
import { owner, ownerOfNew } from './guest.ts'

export const entriesLimitDefault = 200
export const entriesLimitMax = 1_000
export const entriesDepthMax = 32
/** The guest’s timeout for listing entries, and for making or changing one. */
export const entriesTimeoutSecs = 30
/** The guest’s timeout for moving, removing or copying a tree, or changing its modes. */
export const treeTimeoutSecs = 240

const pathMaxLength = 8_192

export const entryTypes = [
  'file',
  'directory',
  'link',
  'fifo',
  'socket',
  'character_device',
  'block_device',
  'unknown',
] as const
const entryType = z.enum(entryTypes)

/** An entry as the agent has it. */
export interface GuestEntry {
  path: string
  exact: boolean
  type: EntryJson['type']
  size: number
  mode: number
  uid: number
  gid: number
  modifiedMs: number
  target: string | null
}

/** The last path of a page of entries, in bytes. */
export const entryAfter = z.base64url().max(2 * pathMaxLength)

/** A page of entries as the agent has it. */
export interface ListEntriesResult {
  entries: GuestEntry[]
  next: string | null
}

/** One change as the agent has it; paths are absolute. */
export type EntryChange =
  | { action: 'mkdir'; path: string; parents: boolean; mode: number | null; owner: string | null }
  | { action: 'move'; path: string; to: string; overwrite: boolean }
  | { action: 'copy'; path: string; to: string; overwrite: boolean; recursive: boolean }
  | { action: 'remove'; path: string; recursive: boolean }
  | { action: 'chmod'; path: string; recursive: boolean; mode: number }

const octal = z.string().regex(/^[0-7]{3,4}$/, 'must be an octal mode such as 0644')

export const entryJson = z
  .object({
    path: z.string().max(pathMaxLength).describe('Absolute path in the guest'),
    exact_path: z
      .boolean()
      .describe('False if the name is not UTF-8: other bytes are U+FFFD here, and no request can name this entry'),
    type: entryType,
    size: z.int().describe('Bytes; of a link, the length of its target'),
    mode: z.string().describe('Octal mode, such as `0644`'),
    uid: z.int(),
    gid: z.int(),
    modified_at: z.string().describe('When its content was last changed, by the guest’s clock'),
    target: z
      .string()
      .max(pathMaxLength)
      .nullable()
      .describe('Of a link: where it leads, as it is written there; otherwise null'),
  })
  .meta({
    id: 'Entry',
    examples: [
      {
        path: '/srv/report.txt',
        exact_path: true,
        type: 'file',
        size: 11,
        mode: '0644',
        uid: 0,
        gid: 0,
        modified_at: '2026-11-02T09:30:00.000Z',
        target: null,
      },
    ],
  })
export type EntryJson = z.infer<typeof entryJson>

const whole = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,4}$/, `must be an integer from ${least} to ${most}`)
    .transform(Number)
    .refine((given) => given >= least && given <= most, `must be an integer from ${least} to ${most}`)

export const entriesQuery = z.object({
  path: z.string().describe('Absolute path in the guest; no `..`, no NUL'),
  depth: whole(0, entriesDepthMax)
    .optional()
    .meta({ type: 'integer', minimum: 0, maximum: entriesDepthMax })
    .describe(
      'Levels below the path: 1 by default. 0 reads the entry of the path itself, and does not follow it if it is a link',
    ),
  cursor: entryAfter.min(1).optional().describe('`next_cursor` of the page before'),
  limit: whole(1, entriesLimitMax)
    .optional()
    .meta({ type: 'integer', minimum: 1, maximum: entriesLimitMax })
    .describe(`Entries of a page at most; ${entriesLimitDefault} by default`),
})

export const entriesJson = z
  .object({
    entries: z.array(entryJson).describe('In byte order of their paths'),
    next_cursor: z.string().nullable().describe('Where the next page begins; null if this is the last one'),
  })
  .meta({ id: 'EntryPage' })
export type EntriesJson = z.infer<typeof entriesJson>

const path = z.string().describe('Absolute path in the guest; no `..`, no NUL')
const to = z.string().describe('The new absolute path; missing parent folders are created')
const overwrite = z.boolean().nullish().describe('Replace what `to` names, unless it is a folder. False by default')
const recursive = z.boolean().nullish().describe('Also a folder with everything in it. False by default')

export const changeEntryBody = z
  .discriminatedUnion('action', [
    z.object({
      action: z.literal('mkdir'),
      path,
      parents: z
        .boolean()
        .nullish()
        .describe('Create missing parents, and accept a folder that exists. True by default'),
      mode: octal.nullish().describe('Octal mode of the new folder; by default as the guest’s umask has it'),
      owner: owner.nullish().describe(ownerOfNew),
    }),
    z.object({ action: z.literal('move'), path, to, overwrite }),
    z.object({ action: z.literal('copy'), path, to, overwrite, recursive }),
    z.object({ action: z.literal('remove'), path, recursive }),
    z.object({ action: z.literal('chmod'), path, recursive, mode: octal }),
  ])
  .meta({
    id: 'ChangeEntryBody',
    examples: [
      { action: 'mkdir', path: '/srv/reports' },
      { action: 'move', path: '/srv/a.txt', to: '/srv/reports/a.txt' },
      { action: 'remove', path: '/srv/reports', recursive: true },
    ],
  })
export type ChangeEntryBody = z.infer<typeof changeEntryBody>

export const changedEntryJson = z
  .object({ entry: entryJson.nullable().describe('The entry as it is now; null if it was removed') })
  .meta({ id: 'ChangedEntry' })
export type ChangedEntryJson = z.infer<typeof changedEntryJson>
