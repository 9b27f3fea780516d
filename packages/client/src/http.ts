// Sends one request under the retry policy and the caller's limits, and turns what is not a success into an error.
// Knows nothing of routes.
import type { ProblemJson } from '@dormouse/contract'
import { readJson } from './bodies.ts'
import { startDeadline } from './deadline.ts'
import { ConnectionError, DormouseError, errorOf, InvalidRequestError, TimeoutError } from './errors.ts'
import { type Clock, delayMs, isRepeatable, mayPass, parseRetryAfter, retriesDefault, systemClock } from './retry.ts'

const callTimeoutDefaultMs = 60_000

/** Where the service is, and how to speak to it. */
export interface HttpOptions {
  /** Only scheme, host and port count: every path begins at the host. */
  baseUrl: string
  fetch?: typeof fetch
  /** Retries after the first attempt; 3 by default. */
  retries?: number
  /** Limit of one call, its retries included; 60 s by default, `Infinity` for none. */
  timeoutMs?: number
  clock?: Clock
}

/** What every call takes. */
export interface CallOptions {
  signal?: AbortSignal
  /** Limit of this call, its retries included. */
  timeoutMs?: number
  retries?: number
  /** Sees status and headers of every answer, those that are retried included. */
  onResponse?: (response: { status: number; headers: Headers }) => void
}

export interface HttpCall extends CallOptions {
  method: string
  path: string
  query?: Record<string, string | number | boolean | null | undefined>
  headers?: Record<string, string | undefined>
  body?: RequestInit['body']
}

interface Prepared {
  url: URL
  method: string
  headers: Headers
  body: RequestInit['body']
}

export class Http {
  readonly clock: Clock
  readonly retries: number | undefined
  readonly #options: HttpOptions
  readonly #credential: string
  readonly #origin: URL

  /** Refuses a base URL or a credential that could not be sent, without repeating the credential. */
  constructor(options: HttpOptions, credential: string) {
    this.clock = options.clock ?? systemClock
    this.retries = options.retries
    this.#options = options
    this.#origin = parseBaseUrl(options.baseUrl)
    this.#credential = credential
    if (!credential) throw new InvalidRequestError(missing('apiKey (operatorKey for operators)', 'DORMOUSE_API_KEY'))
    if (!/^[\x21-\x7e]+$/.test(credential))
      throw new InvalidRequestError('the credential has characters that no credential has')
  }

  /** The answer's JSON body, undefined where it has none. */
  json<T>(call: HttpCall): Promise<T> {
    return this.run(call, readJson<T>)
  }

  /** What `read` makes of the answer; limits and retries last until it is done. */
  async run<T>(call: HttpCall, read: (response: Response) => Promise<T>): Promise<T> {
    const request = this.#prepare(call)
    const retries = call.retries ?? this.#options.retries ?? retriesDefault
    const timeoutMs = call.timeoutMs ?? this.#options.timeoutMs ?? callTimeoutDefaultMs
    using deadline = startDeadline(timeoutMs, call.signal, () => timedOut(request, timeoutMs))
    for (let attempt = 0; ; attempt++) {
      try {
        deadline.signal.throwIfAborted()
        return await read(await this.#send(request, deadline.signal, call.onResponse)).catch(brokenOff)
      } catch (error) {
        deadline.signal.throwIfAborted()
        if (!(error instanceof DormouseError) || attempt >= retries) throw error
        if (!isRepeatable(request.method, request.headers) || !mayPass(error)) throw error
        await this.clock.sleep(delayMs(attempt, error, this.clock.random), deadline.signal)
      }
    }
  }

  /** Built once, before the first attempt: what cannot be sent fails here and is never taken for a lost connection. */
  #prepare(call: HttpCall): Prepared {
    const url = new URL(call.path, this.#origin)
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value))
    }
    const headers = new Headers({ authorization: `Bearer ${this.#credential}`, accept: 'application/json' })
    for (const [name, value] of Object.entries(call.headers ?? {})) {
      if (value !== undefined) headers.set(name, value)
    }
    return { url, method: call.method, headers, body: call.body }
  }

  async #send(request: Prepared, signal: AbortSignal, onResponse: CallOptions['onResponse']): Promise<Response> {
    const { url, ...init } = request
    const send = this.#options.fetch ?? fetch
    // A redirect is refused: it would turn a POST into a GET, or carry the credential elsewhere.
    // What is sent as a stream must say so, or fetch refuses it.
    const half = init.body instanceof ReadableStream && { duplex: 'half' as const }
    const response = await send(url, { ...init, ...half, signal, redirect: 'manual' }).catch((cause: unknown) => {
      throw new ConnectionError(`no answer from ${url.origin}: ${reasonOf(cause)}`, { cause })
    })
    onResponse?.({ status: response.status, headers: response.headers })
    if (response.ok) return response
    throw this.#failure(response, await response.text().catch(brokenOff))
  }

  #failure(response: Response, text: string): DormouseError {
    const problem = parseProblem(text)
    const message = problem?.detail ?? `the service answered ${response.status} ${response.statusText}`.trim()
    return errorOf(response.status, message, {
      problem,
      requestId: response.headers.get('x-request-id') ?? undefined,
      retryAfterMs: parseRetryAfter(response.headers.get('retry-after'), this.clock.now()),
    })
  }
}

function missing(option: string, variable: string): string {
  const where = '`npm start` writes address and keys to .dormouse/local.json'
  return `there is no ${option}: pass it, or set ${variable}, which Desktop reads; ${where}`
}

function parseBaseUrl(text: string): URL {
  if (!text) throw new InvalidRequestError(missing('baseUrl', 'DORMOUSE_URL'))
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new InvalidRequestError(`baseUrl must be an http or https URL, not ${JSON.stringify(text)}`)
}

function timedOut({ method, url }: Prepared, timeoutMs: number): TimeoutError {
  return new TimeoutError(`${method} ${url.pathname} had no answer within ${timeoutMs} ms`)
}

function brokenOff(cause: unknown): never {
  if (cause instanceof DormouseError) throw cause
  throw new ConnectionError(`the answer broke off: ${reasonOf(cause)}`, { cause })
}

/** What a proxy answers in the service's place is no problem body: undefined. */
function parseProblem(text: string): ProblemJson | undefined {
  try {
    const body = JSON.parse(text) as Partial<ProblemJson> | null
    return typeof body?.detail === 'string' && typeof body.status === 'number' ? (body as ProblemJson) : undefined
  } catch {
    return undefined
  }
}

/** The system's word for it (`ECONNREFUSED …`), which fetch hides in causes. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.cause instanceof Error) return reasonOf(error.cause)
  const code = 'code' in error ? String(error.code) : ''
  return error.message && !error.message.includes(code) ? `${code} ${error.message}` : error.message || code
}
