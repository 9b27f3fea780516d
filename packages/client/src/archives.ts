// Folders as tar archives. Packing and unpacking is up to the caller.
import type { ArchiveJson } from '@dormouse/contract'
import { type FileData, readers } from './bodies.ts'
import type { CallOptions, Http } from './http.ts'
import { folderPath, path } from './path.ts'

const beginsMs = 300_000

export interface ArchiveOptions extends CallOptions {
  /** A user of the guest, by name or number; by default the owner of the folder. */
  owner?: string
}

const archiveOf = (id: string, folder: string) => path`/v1/desktops/${id}/archives/` + folderPath(folder)

/** The stream is returned once the headers arrive; the timeout and retries end then. */
export const readArchive = (http: Http, id: string, folder: string, call: CallOptions = {}) =>
  http.run({ ...call, limitMs: beginsMs, method: 'GET', path: archiveOf(id, folder) }, readers.stream)

export const writeArchive = (
  http: Http,
  id: string,
  folder: string,
  data: FileData,
  { owner, ...call }: ArchiveOptions = {},
) =>
  http.json<ArchiveJson>({
    timeoutMs: Number.POSITIVE_INFINITY,
    ...call,
    method: 'PUT',
    path: archiveOf(id, folder),
    query: { owner },
    headers: { 'content-type': 'application/x-tar' },
    body: data,
  })
