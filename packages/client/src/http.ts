// Sends one request with retries and a timeout, and converts failures to errors. Knows no route.
import type { attachBearerPrefix, attachWakePrefix, ProblemJson, WakeWish, WokeJson } from '@dormouse/contract'
import { readJson, readText, refuseCoded } from './bodies.ts'
import { startDeadline } from './deadline.ts'
import { ConnectionError, DormouseError, errorOf, InvalidRequestError, nameRequest, TimeoutError } from './errors.ts'
import { type NamesOf, refuseLeft } from './options.ts'
import { type Clock, delayMs, isRepeatable, mayPass, parseRetryAfter, retriesDefault, systemClock } from './retry.ts'
import { isLasting, whyUnanswered } from './unanswered.ts'

const callTimeoutDefaultMs = 60_000
/** A problem is a few lines; a proxy's page may be longer. */
const problemMaxBytes = 1024 * 1024
const bearerPrefix: typeof attachBearerPrefix = 'dormouse.bearer.'
const wakePrefix: typeof attachWakePrefix = 'dormouse.wake.'
/** A call waits this long for its desktop at most. */
const wakeLimitMs = 120_000

/** The service's address, and how to call it. */
export interface HttpOptions {
  /** Only scheme, host and port are used. */
  baseUrl: string
  fetch?: typeof fetch
  /** Retries after the first attempt; 3 by default. */
  retries?: number
  /** Timeout of one call with its retries; 60 s by default, `Infinity` for none. */
  timeoutMs?: number
  clock?: Clock
  /** Opens WebSockets; by default the platform's own, none with a `fetch` of your own. `false`: terminals use plain requests. */
  webSocket?: typeof WebSocket | false
  /** The default of the calls’ option `wake`. */
  wake?: WakeWish
}

type QueryValue = string | number | boolean | null | undefined

/** Options of every call. */
export interface CallOptions {
  signal?: AbortSignal
  /** Timeout of this call with its retries. */
  timeoutMs?: number
  retries?: number
  /** Called with status and headers of every response, also of those that are retried. */
  onResponse?: (response: { status: number; headers: Headers }) => void
  /**
   * If the call needs its desktop awake: `allow` wakes one that is asleep, and the call goes on; `never` does not, whatever the
   * desktop's `wakeOn` says, which decides otherwise.
   */
  wake?: WakeWish
}

export interface KeyedOptions extends CallOptions {
  /** Requests with the same key take effect once. One is generated if none is given, so that retries are safe. */
  idempotencyKey?: string
}

/** What an answer has if its call has waited for the desktop to wake. */
export interface Woken {
  woke?: WokeJson
}

export interface HttpCall extends CallOptions {
  method: string
  path: string
  /** A list repeats its parameter. */
  query?: Record<string, QueryValue | readonly QueryValue[]>
  headers?: Record<string, string | undefined>
  /** The timeout if the caller gives none. */
  limitMs?: number
  body?: RequestInit['body']
}

export const callNames: NamesOf<CallOptions> = {
  ...{ signal: true, timeoutMs: true, retries: true, onResponse: true, wake: true },
}
const httpCallNames: NamesOf<HttpCall> = {
  ...callNames,
  ...{ method: true, path: true, query: true, headers: true, limitMs: true, body: true },
}
export const httpNames: NamesOf<HttpOptions> = {
  ...{ baseUrl: true, fetch: true, retries: true, timeoutMs: true, clock: true, webSocket: true, wake: true },
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

  /** Throws on a base URL or a credential that cannot be sent. The error never contains the credential. */
  constructor(options: HttpOptions, credential: string) {
    this.clock = options.clock ?? systemClock
    this.retries = options.retries
    this.#options = options
    this.#origin = parseBaseUrl(options.baseUrl)
    this.#credential = credential
    if (!credential) throw new InvalidRequestError(missing('apiKey (for operators: operatorKey)', 'DORMOUSE_API_KEY'))
    if (!/^[\x21-\x7e]+$/.test(credential))
      throw new InvalidRequestError('the credential contains invalid characters; check that it was copied whole')
  }

  /** The response's JSON body; undefined if it has none. */
  json<T>(call: HttpCall): Promise<T> {
    return this.run(call, (response) => readJson<T>(response, { mayBeEmpty: call.method !== 'GET' }))
  }

  /** The response as `read` reads it. Timeout and retries include the reading. */
  async run<T>(call: HttpCall, read: (response: Response) => Promise<T>): Promise<T> {
    refuseLeft(call, httpCallNames)
    const request = this.#prepare(call)
    const retries = call.retries ?? this.#options.retries ?? retriesDefault
    const limitMs = call.limitMs ?? this.#options.timeoutMs ?? callTimeoutDefaultMs
    const timeoutMs = call.timeoutMs ?? limitMs + (this.#wakeOf(call) === 'allow' ? wakeLimitMs : 0)
    using deadline = startDeadline(timeoutMs, call.signal, () => timedOut(request, timeoutMs))
    for (let attempt = 0; ; attempt++) {
      try {
        deadline.signal.throwIfAborted()
        return await read(await this.#send(request, deadline.signal, call.onResponse)).catch(interruptedBy(request.url))
      } catch (error) {
        deadline.signal.throwIfAborted()
        if (error instanceof DormouseError) nameRequest(error, requestOf(request))
        if (!(error instanceof DormouseError) || attempt >= retries) throw error
        if (!isRepeatable(request.method, request.headers) || !mayPass(error)) throw error
        if (error instanceof ConnectionError && isLasting(error.why)) throw error
        await this.clock.sleep(delayMs(attempt, error, this.clock.random), deadline.signal)
      }
    }
  }

  /** Opens a WebSocket with the credential as a subprotocol, because no browser sends it as a header; undefined if there is none. */
  socket({ path, query, wake }: Pick<HttpCall, 'path' | 'query' | 'wake'>, protocol: string): WebSocket | undefined {
    const { fetch: own, webSocket = own ? false : globalThis.WebSocket } = this.#options
    if (!webSocket) return undefined
    const { url } = this.#prepare({ method: 'GET', path, query })
    url.protocol = url.protocol.replace('http', 'ws')
    const credential = btoa(this.#credential).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    const wish = this.#wakeOf({ wake })
    return new webSocket(url, [protocol, `${bearerPrefix}${credential}`, ...(wish ? [`${wakePrefix}${wish}`] : [])])
  }

  #wakeOf({ wake = this.#options.wake }: Pick<HttpCall, 'wake'>): WakeWish | undefined {
    return wake
  }

  /** Built once, before the first attempt: a request that cannot be sent is not mistaken for a lost connection. */
  #prepare(call: HttpCall): Prepared {
    const url = new URL(call.path, this.#origin)
    for (const [name, value] of Object.entries(call.query ?? {})) {
      for (const one of [value].flat() as QueryValue[])
        if (one !== undefined && one !== null) url.searchParams.append(name, wellFormed(name, String(one)))
    }
    const headers = new Headers({ authorization: `Bearer ${this.#credential}`, accept: 'application/json' })
    headers.set('accept-encoding', 'identity')
    const wake = this.#wakeOf(call)
    if (wake !== undefined) headers.set('dormouse-wake', wake)
    for (const [name, value] of Object.entries(call.headers ?? {})) {
      if (value !== undefined) headers.set(name, value)
    }
    return { url, method: call.method, headers, body: call.body }
  }

  async #send(request: Prepared, signal: AbortSignal, onResponse: CallOptions['onResponse']): Promise<Response> {
    const { url, ...init } = request
    const send = this.#options.fetch ?? fetch
    // Redirects are not followed: one could turn a POST into a GET, or send the credential elsewhere.
    // fetch requires `duplex` for a stream.
    const half = init.body instanceof ReadableStream && { duplex: 'half' as const }
    const sent = send(url, { ...init, ...half, signal, redirect: 'manual' })
    const response = await sent.catch((cause: unknown) => {
      const { kind, text } = whyUnanswered(cause, url)
      throw new ConnectionError(`no response from ${url.origin}: ${text}`, { cause }, kind)
    })
    onResponse?.({ status: response.status, headers: response.headers })
    refuseCoded(response)
    if (response.ok) return response
    throw this.#failure(response, await readText(response, problemMaxBytes).catch(interruptedBy(url)))
  }

  #failure(response: Response, text: string): DormouseError {
    const problem = parseProblem(text)
    const message = problem?.detail ?? unexpected(response)
    return errorOf(response.status, message, {
      problem,
      requestId: response.headers.get('x-request-id') ?? undefined,
      retryAfterMs: parseRetryAfter(response.headers.get('retry-after'), this.clock.now()),
    })
  }
}

function missing(option: string, variable: string): string {
  const where = '`npm start` writes both to .dormouse/local.json'
  return `${option} is missing; pass it, or set ${variable}, which Desktop reads (${where})`
}

function parseBaseUrl(text: string): URL {
  if (!text) throw new InvalidRequestError(missing('baseUrl', 'DORMOUSE_URL'))
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new InvalidRequestError(`baseUrl must be an http or https URL, not ${JSON.stringify(text)}`)
}

const requestOf = ({ method, url }: Prepared) => ({ method, path: url.pathname })

function timedOut(prepared: Prepared, timeoutMs: number): TimeoutError {
  const request = requestOf(prepared)
  const what = `${request.method} ${request.path} timed out after ${timeoutMs} ms`
  return new TimeoutError(`${what}; raise timeoutMs, or retry`, { request })
}

/** What is no problem of the service. */
function unexpected({ status, statusText, headers }: Response): string {
  const what = `the service responded with ${status} ${statusText}`.trim()
  const to = headers.get('location')
  if (status < 300 || status > 399 || !to) return what
  return `${what}, to ${to.slice(0, 200)}, which is not followed; set baseUrl to the service’s own address`
}

/** While the response is read. */
const interruptedBy =
  (url: URL) =>
  (cause: unknown): never => {
    if (cause instanceof DormouseError) throw cause
    throw new ConnectionError(`the response was interrupted: ${whyUnanswered(cause, url).text}`, { cause })
  }

/** Undefined for anything but a problem body, such as a proxy's response. */
function parseProblem(text: string): ProblemJson | undefined {
  try {
    const body = JSON.parse(text) as Partial<ProblemJson> | null
    return typeof body?.detail === 'string' && typeof body.status === 'number' ? (body as ProblemJson) : undefined
  } catch {
    return undefined
  }
}

/** A URL would have another character in its place: another file. */
function wellFormed(name: string, value: string): string {
  if (value.isWellFormed()) return value
  throw new InvalidRequestError(`${name} must not contain half of a surrogate pair: ${JSON.stringify(value)}`)
}
