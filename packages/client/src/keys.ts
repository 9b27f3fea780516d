// Keys that customers make for each other: one typed call per route.
import type { CreateApiKeyBody, CreatedOwnKeyJson, OwnKeyJson } from '@dormouse/contract'
import { sendJson } from './bodies.ts'
import type { CallOptions, Http } from './http.ts'
import { path } from './path.ts'

/** A creation is not retried: it would make a second key. */
export const keyCalls = (http: Http) => ({
  /** The only answer with the key itself, `api_key`. */
  create: async (body: CreateApiKeyBody, given: CallOptions = {}) =>
    http.json<CreatedOwnKeyJson>({ ...given, method: 'POST', path: '/v1/keys', ...sendJson(body) }),
  /** The valid ones, oldest first. */
  list: async (given: CallOptions = {}) =>
    http.json<{ keys: OwnKeyJson[] }>({ ...given, method: 'GET', path: '/v1/keys' }),
  /** Closes what the key has open, within seconds. */
  revoke: async (id: string, given: CallOptions = {}) =>
    http.json<void>({ ...given, method: 'DELETE', path: path`/v1/keys/${id}` }),
})
