// The call that runs a short command and returns its end.
import type { ExecBody, ExecJson, execTimeoutDefaultSecs, execTimeoutMaxSecs } from '@dormouse/contract'
import { sendJson } from './bodies.ts'
import type { CallOptions, Http, Woken } from './http.ts'
import { path } from './path.ts'

export interface ExecOptions extends CallOptions {
  /** The command runs once for its key. One is generated if none is given; with null, each request runs it and none is retried. */
  idempotencyKey?: string | null | undefined
}

// The SDK takes only types from the contract: these are its values, as the compiler checks.
const defaultTimeoutSecs: typeof execTimeoutDefaultSecs = 60
const maxTimeoutSecs: typeof execTimeoutMaxSecs = 300
/** Added to the command's own timeout for the response. */
const slackMs = 30_000

export const execCall =
  (http: Http, newKey: () => string) =>
  async (
    id: string,
    body: ExecBody,
    { idempotencyKey = newKey(), ...call }: ExecOptions = {},
  ): Promise<ExecJson & Woken> =>
    http.json<ExecJson & Woken>({
      ...call,
      limitMs: limitMs(body),
      method: 'POST',
      path: path`/v1/desktops/${id}/exec`,
      ...sendJson(body, idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey }),
    })

const limitMs = ({ timeout_secs }: ExecBody): number =>
  Math.min(timeout_secs ?? defaultTimeoutSecs, maxTimeoutSecs) * 1_000 + slackMs
