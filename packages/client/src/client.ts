// One typed call per route of /v1, in the wire's own words. Composes nothing but the two ways to wait for an operation.
import type {
  CreateDesktopBody,
  DesktopJson,
  DesktopState,
  ExecBody,
  ExecJson,
  OperationJson,
  OperationKind,
  StreamClaim,
  StreamJson,
  WakeBody,
} from '@dormouse/contract'
import { type FileData, type ReadFormat, type ReadResults, readers, readJson, sendJson } from './bodies.ts'
import { type CallOptions, Http, type HttpOptions } from './http.ts'
import { pollOperation, type SettleOptions, settle, type WaitOptions, waitCallTimeoutMs } from './operations.ts'
import { guestPath, path } from './path.ts'

/** Where the service is and who asks. */
export interface ClientOptions extends HttpOptions {
  /** An API key, or a JWT access token. */
  apiKey: string
}

export interface KeyedOptions extends CallOptions {
  /** Repeats with the same key do the thing once. One is made where none is given, so that a retry is safe. */
  idempotencyKey?: string
}

export interface MutationOptions extends KeyedOptions {
  /** Let the server hold the answer until the operation settles, 120 s at most. */
  wait?: boolean
}

export interface DesktopQuery {
  state?: DesktopState
  limit?: number
  cursor?: string
}

/** A page of desktops; `next` is the cursor of the one after it. */
export interface DesktopPage {
  desktops: DesktopJson[]
  next?: string
}

export interface UsageJson {
  start: number
  end: number
  desktops: ({ desktop_id: string } & UsageSums)[]
  totals: UsageSums[]
}

interface UsageSums {
  tier: DesktopJson['tier']
  billing_mode: DesktopJson['billing_mode']
  awake_seconds: number
  hibernated_seconds: number
}

const execTimeoutDefaultSecs = 60
const execTimeoutMaxSecs = 300
/** A file may wait for others of its desktop before it moves. */
const fileLimitMs = 300_000
/** What the answer of a command may take beyond the command's own time. */
const execSlackMs = 30_000

/** The typed client of /v1: one call per route, each under the retry policy. */
export function createClient(options: ClientOptions) {
  const http = new Http(options, options.apiKey)

  const mutate = async (kind: OperationKind, id: string, body: WakeBody, given: MutationOptions = {}) =>
    http.json<OperationJson>({
      ...given,
      timeoutMs: given.timeoutMs ?? (given.wait ? waitCallTimeoutMs : undefined),
      method: 'POST',
      path: path`/v1/desktops/${id}/${kind}`,
      query: { wait: given.wait },
      ...sendJson(body, { 'idempotency-key': given.idempotencyKey ?? newIdempotencyKey() }),
    })

  const getOperation = async (id: string, call: CallOptions = {}) =>
    http.json<OperationJson>({ ...call, method: 'GET', path: path`/v1/operations/${id}` })

  return {
    /** The service's OpenAPI 3.1 document. */
    getOpenapi: async (call: CallOptions = {}) =>
      http.json<Record<string, unknown>>({ ...call, method: 'GET', path: '/v1/openapi.json' }),

    /** Desktops, newest first: all of them, or a page where `limit` is given. */
    listDesktops: async (query: DesktopQuery = {}, call: CallOptions = {}): Promise<DesktopPage> =>
      http.run({ ...call, method: 'GET', path: '/v1/desktops', query: { ...query } }, async (response) => ({
        desktops: (await readJson<{ desktops: DesktopJson[] }>(response)).desktops,
        next: nextCursor(response.headers.get('link')),
      })),

    /** A new desktop, in state `created`; the one already made where the key was used before. */
    createDesktop: async (
      body: CreateDesktopBody,
      { idempotencyKey = newIdempotencyKey(), ...call }: KeyedOptions = {},
    ) =>
      http.json<DesktopJson>({
        ...call,
        method: 'POST',
        path: '/v1/desktops',
        ...sendJson(body, { 'idempotency-key': idempotencyKey }),
      }),

    getDesktop: async (id: string, call: CallOptions = {}) =>
      http.json<DesktopJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}` }),

    /** Asks for a wake; with `discard_memory` the saved memory is given up and it boots from disk. */
    wakeDesktop: async (id: string, body: WakeBody = {}, given?: MutationOptions) => mutate('wake', id, body, given),

    hibernateDesktop: async (id: string, body: MutationBody = {}, given?: MutationOptions) =>
      mutate('hibernate', id, body, given),

    /** Asks for the end of it: legal from every state but `destroying` and `destroyed`. */
    destroyDesktop: async (id: string, body: MutationBody = {}, given?: MutationOptions) =>
      mutate('destroy', id, body, given),

    /** In the contract, but no working feature: always fails with 501. */
    forkDesktop: async (id: string, call: CallOptions = {}) =>
      http.json<never>({ ...call, method: 'POST', path: path`/v1/desktops/${id}/fork` }),

    getOperation,

    /** Operations of a desktop, newest first. */
    listOperations: async (desktopId: string, call: CallOptions = {}) =>
      http.json<{ operations: OperationJson[] }>({
        ...call,
        method: 'GET',
        path: path`/v1/desktops/${desktopId}/operations`,
      }),

    /** Runs a command in an awake desktop. Not repeatable, so never retried. */
    exec: async (id: string, body: ExecBody, call: CallOptions = {}) =>
      http.json<ExecJson>({
        ...call,
        timeoutMs: call.timeoutMs ?? execLimitMs(body),
        method: 'POST',
        path: path`/v1/desktops/${id}/exec`,
        ...sendJson(body),
      }),

    /** Writes a file whole or not at all, 8 MiB at most; parents are made. `mode` is octal text, `0644`. */
    writeFile: async (
      id: string,
      file: string,
      data: FileData,
      { mode, ...call }: CallOptions & { mode?: string } = {},
    ) =>
      http.json<{ path: string; size: number }>({
        ...call,
        timeoutMs: call.timeoutMs ?? fileLimitMs,
        method: 'PUT',
        path: path`/v1/desktops/${id}/files/` + guestPath(file),
        query: { mode },
        headers: { 'content-type': 'application/octet-stream' },
        body: data,
      }),

    /** Reads a file of any size. A `stream` is handed over when its headers are there: limits and retries end then. */
    readFile: async <F extends ReadFormat = 'bytes'>(
      id: string,
      file: string,
      { format = 'bytes' as F, ...call }: CallOptions & { format?: F } = {},
    ): Promise<ReadResults[F]> =>
      http.run(
        {
          ...call,
          timeoutMs: call.timeoutMs ?? fileLimitMs,
          method: 'GET',
          path: path`/v1/desktops/${id}/files/` + guestPath(file),
        },
        readers[format] as (response: Response) => Promise<ReadResults[F]>,
      ),

    /** Claims the picture; a claim that another client holds is refused unless `takeover` says otherwise. */
    openStream: async (id: string, body: { claim: StreamClaim; takeover?: boolean }, call: CallOptions = {}) =>
      http.json<StreamJson>({ ...call, method: 'POST', path: path`/v1/desktops/${id}/stream`, ...sendJson(body) }),

    /** The screen as it is now, as PNG. */
    screenshot: async (id: string, call: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> =>
      http.run({ ...call, method: 'GET', path: path`/v1/desktops/${id}/screenshot` }, readers.bytes),

    /** What was used between two times in Unix seconds; by default from the start of this UTC month until now. */
    getUsage: async (query: { start?: number; end?: number } = {}, call: CallOptions = {}) =>
      http.json<UsageJson>({ ...call, method: 'GET', path: '/v1/usage', query }),

    /** Asks for a transition and waits until it has settled; throws OperationFailedError where it failed. */
    settle: async (kind: OperationKind, id: string, body: WakeBody = {}, given: SettleOptions = {}) =>
      settle(http, (call) => mutate(kind, id, body, call), given.idempotencyKey ?? newIdempotencyKey(), given),

    /** Waits for an operation that was asked for before; throws OperationFailedError where it failed. */
    waitForOperation: async (id: string, given: WaitOptions = {}) =>
      pollOperation(http, (call) => getOperation(id, call), given),
  }
}

export type Client = ReturnType<typeof createClient>

type MutationBody = Omit<WakeBody, 'discard_memory'>

/** A key that nobody else makes; works in browsers on plain http too, where randomUUID does not. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function execLimitMs(body: ExecBody): number {
  return Math.min(body.timeout_secs ?? execTimeoutDefaultSecs, execTimeoutMaxSecs) * 1000 + execSlackMs
}

/** The cursor in a `Link: <…>; rel="next"`. Only the cursor is taken: a link may not send the credential elsewhere. */
export function nextCursor(link: string | null): string | undefined {
  const target = link?.match(/<([^>]*)>\s*;[^<]*\brel="?next"?/i)?.[1]
  if (target === undefined || !URL.canParse(target, 'http://localhost')) return undefined
  return new URL(target, 'http://localhost').searchParams.get('cursor') ?? undefined
}
