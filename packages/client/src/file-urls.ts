// URLs that are handed on: one typed call for each of their routes.
import type { CreatedFileUrlJson, CreateFileUrlBody, FileUrlJson } from '@dormouse/contract'
import { sendJson } from './bodies.ts'
import type { CallOptions, Http } from './http.ts'
import { path } from './path.ts'

/** The calls of /v1/desktops/{id}/file-urls. */
export const fileUrlCalls = (http: Http) => ({
  /** The only answer with the URL itself. Never retried: a repeat would make another one. */
  create: async (desktopId: string, body: CreateFileUrlBody, call: CallOptions = {}) =>
    http.json<CreatedFileUrlJson>({
      ...call,
      method: 'POST',
      path: path`/v1/desktops/${desktopId}/file-urls`,
      ...sendJson(body),
    }),
  /** Active ones, then the newest. */
  list: async (desktopId: string, call: CallOptions = {}) =>
    http.json<{ file_urls: FileUrlJson[] }>({
      ...call,
      method: 'GET',
      path: path`/v1/desktops/${desktopId}/file-urls`,
    }),
  /** Its transfers in progress are cut. */
  revoke: async (desktopId: string, id: string, call: CallOptions = {}) =>
    http.json<void>({ ...call, method: 'DELETE', path: path`/v1/desktops/${desktopId}/file-urls/${id}` }),
})
