// URLs that are handed on, each for one file of a desktop: bodies and limits.
import { z } from 'zod'
import { fileWriteMaxBytes } from './guest.ts'
import { id } from './ids.ts'
import { uploadMaxBytes } from './uploads.ts'

export const fileUrlMaxSecs = 24 * 3_600
const fileUrlDefaultSecs = 3_600
/** How many usable URLs one desktop may have. */
export const fileUrlsMax = 100
/** How often one URL may be used. Each use is an entry in the audit log. */
export const fileUrlUsesMax = 10_000
/** The newest that a list has. */
export const fileUrlsListed = 200

const fileUrlMethod = z.enum(['GET', 'PUT'])
export type FileUrlMethod = z.infer<typeof fileUrlMethod>

export const createFileUrlBody = z
  .object({
    path: z.string().describe('Absolute path of the file in the guest; no `..`, no NUL'),
    method: fileUrlMethod.describe('`GET` reads the file, `PUT` writes it'),
    max_bytes: z
      .int()
      .min(1)
      .max(uploadMaxBytes)
      .nullish()
      .describe(
        `Of the file; a larger one is refused with 413. By default ${fileWriteMaxBytes} (8 MiB) for \`PUT\`, and any for \`GET\``,
      ),
    once: z.boolean().nullish().describe('It works once; false by default'),
    expires_in_secs: z
      .int()
      .min(1)
      .max(fileUrlMaxSecs)
      .default(fileUrlDefaultSecs)
      .describe(`${fileUrlDefaultSecs} by default; one that was made with an access token ends with it at the latest`),
  })
  .meta({ id: 'CreateFileUrlBody', examples: [{ path: '/srv/report.pdf', method: 'GET', once: true }] })
export type CreateFileUrlBody = z.input<typeof createFileUrlBody>

const fileUrlFields = {
  id,
  path: z.string(),
  method: fileUrlMethod,
  max_bytes: z.int().nullable().describe('Of the file; null: any'),
  once: z.boolean(),
  state: z
    .enum(['active', 'used', 'expired', 'revoked'])
    .describe('`used`: as often as it may be. `revoked`: it was, or the API key that made it'),
  made_by: z.string().describe('The API key or the subject of the access token, such as `key:<id>`'),
  created_at: z.string(),
  expires_at: z.string(),
  uses: z.int(),
  last_used_at: z.string().nullable(),
}
const example = {
  id: '019a9f00-0000-7000-8000-000000000001',
  path: '/srv/report.pdf',
  method: 'GET' as const,
  max_bytes: null,
  once: true,
  state: 'active' as const,
  made_by: 'key:019a9f00-0000-7000-8000-0000000000aa',
  created_at: '2026-11-02T09:30:00.000Z',
  expires_at: '2026-11-02T10:30:00.000Z',
  uses: 0,
  last_used_at: null,
}

export const fileUrlJson = z.object(fileUrlFields).meta({ id: 'FileUrl', examples: [example] })
export type FileUrlJson = z.infer<typeof fileUrlJson>

export const createdFileUrlJson = z
  .object({ ...fileUrlFields, url: z.string().describe('Whoever has it can use it; it is shown only here') })
  .meta({
    id: 'CreatedFileUrl',
    examples: [{ ...example, url: 'https://dormouse.example.com/files/q3J0V2xkUk1nYzVhZ1Q' }],
  })
export type CreatedFileUrlJson = z.infer<typeof createdFileUrlJson>

export const fileUrlsJson = z
  .object({ file_urls: z.array(fileUrlJson).describe(`Active ones, then the newest; at most ${fileUrlsListed}`) })
  .meta({ id: 'FileUrlList' })
