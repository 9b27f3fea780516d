// Bulks: one typed call per route, and the wait for a plan to settle.
import type { BulkBody, BulkJson } from '@dormouse/contract'
import { sendJson } from './bodies.ts'
import type { CallOptions, Http, KeyedOptions } from './http.ts'
import { path } from './path.ts'

export interface BulkWaitOptions extends CallOptions {
  onProgress?: (seen: BulkJson) => void
}

const pollMs = 500
/** A plan has a row for each desktop: one of thousands is read less often. */
const pollMsPerDesktop = 0.25
const endless = new AbortController().signal

export const bulkCalls = (http: Http, newKey: () => string) => {
  const get = async (id: string, call: CallOptions = {}) =>
    http.json<BulkJson>({ ...call, method: 'GET', path: path`/v1/desktops/bulk/${id}` })
  return {
    /** The plan, or with `dry_run` what it would do. Name the desktops by `select` or `ids`. */
    create: async (body: BulkBody, { idempotencyKey = newKey(), ...call }: KeyedOptions = {}) =>
      http.json<BulkJson>({
        ...call,
        method: 'POST',
        path: '/v1/desktops/bulk',
        ...sendJson(body, { 'idempotency-key': idempotencyKey }),
      }),
    get,
    /** Begins nothing more; what was begun goes on. */
    cancel: async (id: string, call: CallOptions = {}) =>
      http.json<BulkJson>({ ...call, method: 'POST', path: path`/v1/desktops/bulk/${id}/cancel` }),
    /** Waits until each of its desktops has settled. */
    settled: async (id: string, { onProgress, ...call }: BulkWaitOptions = {}): Promise<BulkJson> => {
      for (;;) {
        const seen = await get(id, call)
        onProgress?.(seen)
        if (seen.settled_at !== null) return seen
        await http.clock.sleep(Math.max(pollMs, seen.progress.total * pollMsPerDesktop), call.signal ?? endless)
      }
    },
  }
}
