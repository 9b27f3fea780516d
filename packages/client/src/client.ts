// One typed call per route of /v1, with the API's own names, and two ways to wait for an operation.
import type {
  ChangeDesktopBody,
  ChangedEntryJson,
  ChangeEntryBody,
  ClipboardBody,
  ClipboardJson,
  ClipboardSetJson,
  CreateDesktopBody,
  DesktopJson,
  DesktopState,
  EntriesJson,
  EventJson,
  EventListJson,
  HibernateBody,
  IdleJson,
  InputBody,
  InputJson,
  MetricsJson,
  MutationBody,
  OfferedImagesJson,
  OperationJson,
  OwnQuotasJson,
  RequestKind,
  ScreenJson,
  StreamBody,
  StreamJson,
  TiersJson,
  UsageJson,
  WakeBody,
  WakeLockBody,
  WakeLockJson,
} from '@dormouse/contract'
import { type ArchiveOptions, readArchive, writeArchive } from './archives.ts'
import {
  type FileData,
  type FilePart,
  partOf,
  type ReadFormat,
  type ReadResults,
  readerOf,
  readers,
  readJson,
  sendJson,
} from './bodies.ts'
import { bulkCalls } from './bulk.ts'
import { copyCalls } from './copies.ts'
import { InvalidRequestError } from './errors.ts'
import { type EventPageOptions, type EventsOptions, followEvents, pageOfEvents } from './events.ts'
import { execCalls } from './execs.ts'
import { fileUrlCalls } from './file-urls.ts'
import { type CallOptions, Http, type HttpOptions, httpNames, type KeyedOptions } from './http.ts'
import { keyCalls } from './keys.ts'
import {
  pollOperation,
  type SettleOptions,
  settle,
  settleEnsured,
  settleNames,
  type WaitOptions,
  waitCallTimeoutMs,
  waitNames,
} from './operations.ts'
import { type NamesOf, refuseUnknown } from './options.ts'
import { nextCursor } from './pages.ts'
import { guestPath, path } from './path.ts'
import { type Screenshot, type ScreenshotQuery, takeScreenshot } from './screenshots.ts'
import { execCall } from './short-exec.ts'
import { type UploadData, type UploadOptions, upload } from './uploads.ts'
import { watchCalls } from './watches.ts'
import { webhookCalls } from './webhooks.ts'
import { type WriteOptions, writeFile } from './write-file.ts'

/** The service's address and the credential. */
export interface ClientOptions extends HttpOptions {
  /** An API key, or a JWT access token. */
  apiKey: string
}

/** The API requires a tier; the SDK has a default. */
export type NewDesktop = Omit<CreateDesktopBody, 'tier'> & Partial<Pick<CreateDesktopBody, 'tier'>>

export interface MutationOptions extends KeyedOptions {
  /** Makes the service respond when the operation settles, after 120 s at most. */
  wait?: boolean
}

export interface DesktopQuery {
  /** Only desktops in this state, or in one of these. */
  state?: DesktopState | readonly DesktopState[]
  /** Only the desktop of this name. */
  name?: string
  /** Only desktops whose labels match, such as `team=qa,run!=42,env in (a,b),owner`. */
  select?: string
  /** `-created_at` by default: the newest first. */
  sort?: 'created_at' | '-created_at' | 'name'
  limit?: number
  cursor?: string
}

export interface MetricsQuery {
  /** Unix seconds; by default an hour before `end`. */
  start?: number
  /** Unix seconds, at most 24 h after `start`; by default now. */
  end?: number
  /** Seconds that one point covers, from 10. */
  step?: number
}

export interface PartOptions extends CallOptions {
  /** The first byte. */
  offset: number
  /** By default to the end. */
  length?: number
  /** The version of the part that was read before. */
  version?: string
}

export interface EntriesQuery {
  path: string
  /** Levels below the path; 1 by default. */
  depth?: number
  limit?: number
  cursor?: string
}

/** A page of desktops; `next` is the cursor of the next page. */
export interface DesktopPage {
  desktops: DesktopJson[]
  next?: string
}

// The SDK takes only types from the contract: this is its value, as the compiler checks.
const tierDefault: DesktopJson['tier'] = 'default'
/** A transfer may wait for others of its desktop before it begins. */
const fileLimitMs = 300_000
/** The longest that a batch of input may take, with its settling and its picture. */
const inputLimitMs = 150_000

/** The typed client of /v1: one call per route, each under the retry policy. */
export function createClient(options: ClientOptions) {
  // In JavaScript, there may be none: `Http` throws what is missing.
  options ??= {} as ClientOptions
  refuseUnknown('createClient', options, { ...httpNames, apiKey: true } satisfies NamesOf<ClientOptions>)
  const http = new Http(options, options.apiKey)

  const mutate = async (
    kind: RequestKind,
    id: string,
    body: WakeBody,
    { wait, idempotencyKey = newIdempotencyKey(), ...call }: MutationOptions = {},
  ) =>
    http.json<OperationJson>({
      ...call,
      timeoutMs: call.timeoutMs ?? (wait ? waitCallTimeoutMs : undefined),
      method: 'POST',
      path: path`/v1/desktops/${id}/${kind}`,
      query: { wait },
      ...sendJson(body, { 'idempotency-key': idempotencyKey }),
    })

  const getOperation = async (id: string, { wait, ...call }: CallOptions & { wait?: boolean } = {}) =>
    http.json<OperationJson>({ ...call, method: 'GET', path: path`/v1/operations/${id}`, query: { wait } })

  const exec = execCall(http, newIdempotencyKey)

  return {
    /** The service's OpenAPI 3.1 document. */
    getOpenapi: async (call: CallOptions = {}) =>
      http.json<Record<string, unknown>>({ ...call, method: 'GET', path: '/v1/openapi.json' }),

    /** One action on many desktops: a plan, with a row for each. */
    bulk: bulkCalls(http, newIdempotencyKey),
    /** Copies of desktops in vaults, and the policies by which they are made. */
    copies: copyCalls(http),

    /** Desktops, newest first unless `sort` is given: all of them, or a page if `limit` is given. */
    listDesktops: async (query: DesktopQuery = {}, call: CallOptions = {}): Promise<DesktopPage> =>
      http.run({ ...call, method: 'GET', path: '/v1/desktops', query: { ...query } }, async (response) => ({
        desktops: (await readJson<{ desktops: DesktopJson[] }>(response)).desktops,
        next: nextCursor(response.headers.get('link')),
      })),

    /**
     * A new desktop, in state `created`, of the tier `default` if none is given; the existing one if the key was used before, or
     * with `get_or_create` the one of that name.
     */
    createDesktop: async (
      body: NewDesktop = {},
      { idempotencyKey = newIdempotencyKey(), ...call }: KeyedOptions = {},
    ) =>
      http.json<DesktopJson>({
        ...call,
        method: 'POST',
        path: '/v1/desktops',
        ...sendJson({ ...body, tier: body.tier ?? tierDefault }, { 'idempotency-key': idempotencyKey }),
      }),

    /** What desktops can be created with: the default first, then by name. */
    listImages: async (call: CallOptions = {}) =>
      http.json<OfferedImagesJson>({ ...call, method: 'GET', path: '/v1/images' }),

    /** The tiers and their sizes, the smallest first. */
    listTiers: async (call: CallOptions = {}) => http.json<TiersJson>({ ...call, method: 'GET', path: '/v1/tiers' }),

    /** How many desktops the organisation may have and has: in all, and with certain labels. */
    listQuotas: async (call: CallOptions = {}) =>
      http.json<OwnQuotasJson>({ ...call, method: 'GET', path: '/v1/quotas' }),

    /** With `include: 'metrics'` also what its host has measured last. */
    getDesktop: async (id: string, { include, ...call }: CallOptions & { include?: 'metrics' } = {}) =>
      http.json<DesktopJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}`, query: { include } }),

    /** What the desktop has used of its processor, memory, disk and network; by default in the last hour. */
    getMetrics: async (id: string, query: MetricsQuery = {}, call: CallOptions = {}) =>
      http.json<MetricsJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}/metrics`, query: { ...query } }),

    /** Changes the fields that are given. Labels are merged; null removes one. */
    changeDesktop: async (id: string, body: ChangeDesktopBody, call: CallOptions = {}) =>
      http.json<DesktopJson>({ ...call, method: 'PATCH', path: path`/v1/desktops/${id}`, ...sendJson(body) }),

    /** What keeps a desktop awake, and when it will hibernate by itself. */
    getIdle: async (id: string, call: CallOptions = {}) =>
      http.json<IdleJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}/idle` }),

    /** Keeps a desktop awake for a while; the same name again renews the lock. */
    putWakeLock: async (id: string, name: string, body: WakeLockBody, call: CallOptions = {}) =>
      http.json<WakeLockJson>({
        ...call,
        method: 'PUT',
        path: path`/v1/desktops/${id}/wake-locks/${name}`,
        ...sendJson(body),
      }),

    /** Ends a wake lock, if there is one; returns those that are left. */
    deleteWakeLock: async (id: string, name: string, call: CallOptions = {}) =>
      http.json<{ wake_locks: WakeLockJson[] }>({
        ...call,
        method: 'DELETE',
        path: path`/v1/desktops/${id}/wake-locks/${name}`,
      }),

    /** Requests a wake. With `discard_memory` it discards the saved memory and boots from disk. */
    wakeDesktop: async (id: string, body: WakeBody = {}, given?: MutationOptions) => mutate('wake', id, body, given),

    hibernateDesktop: async (id: string, body: HibernateBody = {}, given?: MutationOptions) =>
      mutate('hibernate', id, body, given),

    /** Requests a destroy: allowed in every state but `destroying` and `destroyed`. */
    destroyDesktop: async (id: string, body: MutationBody = {}, given?: MutationOptions) =>
      mutate('destroy', id, body, given),

    /** Not implemented by the service: always fails with 501. */
    forkDesktop: async (id: string, call: CallOptions = {}) =>
      http.json<never>({ ...call, method: 'POST', path: path`/v1/desktops/${id}/fork` }),

    getOperation,

    /** Commands that last. */
    execs: execCalls(http, newIdempotencyKey, exec),

    /** API keys that may do less than this client's. */
    keys: keyCalls(http),

    /** Events that are sent to a URL. */
    webhooks: webhookCalls(http),

    /** Operations of a desktop, newest first. */
    listOperations: async (desktopId: string, call: CallOptions = {}) =>
      http.json<{ operations: OperationJson[] }>({
        ...call,
        method: 'GET',
        path: path`/v1/desktops/${desktopId}/operations`,
      }),

    /**
     * Runs a short command in an awake desktop, once for its key; with the key `null` each request runs it, and none is retried.
     * `execs.run` streams, and goes on over a sleep.
     */
    exec,

    /** Writes a file of any size, atomically; creates parent folders. A file of more than 8 MiB is sent as an upload. */
    writeFile: async (id: string, file: string, data: FileData, options?: WriteOptions) =>
      writeFile(http, id, file, data, options),

    /** Reads a file of any size. A `stream` is returned once the headers arrive; the timeout and retries end then. */
    readFile: async <F extends ReadFormat = 'bytes'>(
      id: string,
      file: string,
      { format = 'bytes' as F, ...call }: CallOptions & { format?: F } = {},
    ): Promise<ReadResults[F]> =>
      http.run(
        {
          ...call,
          limitMs: fileLimitMs,
          method: 'GET',
          path: path`/v1/desktops/${id}/files/` + guestPath(file),
        },
        readerOf(format) as (response: Response) => Promise<ReadResults[F]>,
      ),

    /**
     * Part of a file, as a stream. If the file has another `version` than the one given, or no size that is known
     * before its end, it comes whole: look at `offset`.
     */
    readFilePart: async (
      id: string,
      file: string,
      { offset, length, version, ...call }: PartOptions,
    ): Promise<FilePart> =>
      http.run(
        {
          ...call,
          limitMs: fileLimitMs,
          method: 'GET',
          path: path`/v1/desktops/${id}/files/` + guestPath(file),
          headers: {
            range: `bytes=${offset}-${length === undefined ? '' : offset + length - 1}`,
            'if-range': version === undefined ? undefined : `"${version}"`,
          },
        },
        partOf,
      ),

    /** Writes a file of any size: in pieces, continued after interruptions, and placed whole at the end. */
    upload: async (id: string, file: string, data: UploadData, options?: UploadOptions) =>
      upload(http, id, file, data, options),

    /**
     * A folder as a tar archive, which the guest packs as it is read: a stream, which fails if not all of it has come. Its headers
     * end the timeout and the retries.
     */
    readArchive: async (id: string, folder: string, call?: CallOptions) => readArchive(http, id, folder, call),

    /**
     * Unpacks a tar archive into a folder, with its parents. Nothing is in its place before all of it has come. In a folder that is
     * there, entries are added or replaced, each file whole. By default it may last as long as it takes.
     */
    writeArchive: async (id: string, folder: string, archive: FileData, options?: ArchiveOptions) =>
      writeArchive(http, id, folder, archive, options),

    /** Changes of a folder, as they happen. */
    watches: watchCalls(http),

    /** URLs that read or write one file without a credential. */
    fileUrls: fileUrlCalls(http),

    /** A page of the entries below a folder; with depth 0 the entry of the path itself. Paths are absolute. */
    listEntries: async (id: string, query: EntriesQuery, call: CallOptions = {}) =>
      http.json<EntriesJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}/entries`, query: { ...query } }),

    /** Makes a folder, or moves, copies, removes or changes the mode of an entry. Never retried. */
    changeEntry: async (id: string, body: ChangeEntryBody, call: CallOptions = {}) =>
      http.json<ChangedEntryJson>({
        ...call,
        limitMs: fileLimitMs,
        method: 'POST',
        path: path`/v1/desktops/${id}/entries`,
        ...sendJson(body),
      }),

    /** Claims the screen. Refused with `claim_held` while another client holds the claim, unless `takeover` is true. */
    openStream: async (id: string, body: StreamBody, call: CallOptions = {}) =>
      http.json<StreamJson>({ ...call, method: 'POST', path: path`/v1/desktops/${id}/stream`, ...sendJson(body) }),

    /** Types and points, at most once. Refused with `claim_held` while another client holds the claim `control`. */
    sendInput: async (
      id: string,
      body: InputBody,
      { idempotencyKey = newIdempotencyKey(), ...call }: KeyedOptions = {},
    ) =>
      http.json<InputJson>({
        ...call,
        limitMs: inputLimitMs,
        method: 'POST',
        path: path`/v1/desktops/${id}/input`,
        ...sendJson(body, { 'idempotency-key': idempotencyKey }),
      }),

    /** The text that was copied last; refused with `clipboard_unavailable` if the guest shares no clipboard. */
    readClipboard: async (id: string, call: CallOptions = {}) =>
      http.json<ClipboardJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}/clipboard` }),

    /** Replaces the clipboard. Refused with `claim_held` while another client holds the claim `control`. */
    writeClipboard: async (id: string, body: ClipboardBody, call: CallOptions = {}) =>
      http.json<ClipboardSetJson>({
        ...call,
        limitMs: inputLimitMs,
        method: 'PUT',
        path: path`/v1/desktops/${id}/clipboard`,
        ...sendJson(body),
      }),

    /** The screen's size, pointer and sequence, and who controls it. */
    getScreen: async (id: string, call: CallOptions = {}) =>
      http.json<ScreenJson>({ ...call, method: 'GET', path: path`/v1/desktops/${id}/screen` }),

    /** The screen as it is now, as PNG. */
    screenshot: async (id: string, call: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> =>
      http.run({ ...call, method: 'GET', path: path`/v1/desktops/${id}/screenshot` }, readers.bytes),

    /** A picture of the screen, as requested, once it is as `wait` requires or `maxMs` is over. */
    takeScreenshot: async (id: string, query: ScreenshotQuery = {}, call: CallOptions = {}): Promise<Screenshot> =>
      takeScreenshot(http, id, query, call),

    /** Usage between two times in Unix seconds; by default from the start of this UTC month until now; with `select`, of those desktops alone. */
    getUsage: async (query: { start?: number; end?: number; select?: string } = {}, call: CallOptions = {}) =>
      http.json<UsageJson>({ ...call, method: 'GET', path: '/v1/usage', query }),

    /** What changes, from now on or behind a cursor, each event once: an iterator that reconnects. */
    events: (options: EventsOptions = {}) => followEvents<EventJson>(http, '/v1/events', options),

    /** A page of what has changed, oldest first, and the cursor behind it. */
    listEvents: async (options: EventPageOptions = {}, call: CallOptions = {}) =>
      pageOfEvents<EventListJson>(http, '/v1/events', options, call),

    /** Requests a transition and waits until it settles; throws OperationFailedError if it failed. */
    settle: async (kind: RequestKind, id: string, body: WakeBody = {}, given: SettleOptions = {}) => {
      refuseUnknown(`settle (${kind})`, given, settleNames)
      const ask = (call: MutationOptions) => mutate(kind, id, body, call)
      const key = given.idempotencyKey ?? newIdempotencyKey()
      if (!body.ensure) return settle(http, ask, key, given)
      return settleEnsured(http, ask, getOperation, key, given).catch((error: unknown) => {
        if (!(error instanceof InvalidRequestError) || error.problem?.field !== 'ensure' || body.discard_memory)
          throw error
        // A service of release 0.1.0 knows no `ensure`.
        const { ensure: _, ...plain } = body
        return settle(http, (call) => mutate(kind, id, plain, call), key, given)
      })
    },

    /** Waits for an operation that was requested before; throws OperationFailedError if it failed. */
    waitForOperation: async (id: string, given: WaitOptions = {}) => {
      refuseUnknown('waitForOperation', given, waitNames)
      return pollOperation(http, (call) => getOperation(id, call), given)
    },
  }
}

export type Client = ReturnType<typeof createClient>

/** A random key. Works in browsers on plain http too, which have no randomUUID. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
