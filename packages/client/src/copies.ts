// Copies of desktops in vaults, and the policies by which they are made: one typed call per route.
import type { CopyJson, CopyPolicyBody, CopyPolicyJson, OperationJson } from '@dormouse/contract'
import { sendJson } from './bodies.ts'
import type { CallOptions, Http } from './http.ts'
import { path } from './path.ts'

export const copyCalls = (http: Http) => ({
  /** Newest first. */
  list: async (desktopId: string, call: CallOptions = {}) =>
    http.json<{ copies: CopyJson[] }>({ ...call, method: 'GET', path: path`/v1/desktops/${desktopId}/copies` }),
  /** Begins the restore; `waitForOperation` waits for its end. */
  restore: async (desktopId: string, copyId: string, call: CallOptions = {}) =>
    http.json<OperationJson>({
      ...call,
      method: 'POST',
      path: path`/v1/desktops/${desktopId}/copies/${copyId}/restore`,
    }),
  policies: async (call: CallOptions = {}) =>
    http.json<{ policies: CopyPolicyJson[] }>({ ...call, method: 'GET', path: '/v1/copy-policies' }),
  putPolicy: async (name: string, body: CopyPolicyBody = {}, call: CallOptions = {}) =>
    http.json<CopyPolicyJson>({ ...call, method: 'PUT', path: path`/v1/copy-policies/${name}`, ...sendJson(body) }),
  removePolicy: async (name: string, call: CallOptions = {}) =>
    http.json<void>({ ...call, method: 'DELETE', path: path`/v1/copy-policies/${name}` }),
})
