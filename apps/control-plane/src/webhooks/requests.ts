// One HTTP request of a delivery. It is cut off after ten seconds, follows no redirect, uses no proxy, connects only to
// addresses that were checked after DNS, and reads no more of a response than its status. Knows no webhook.
import { Resolver } from 'node:dns/promises'
import http from 'node:http'
import https from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import type { DeliveryError } from '@dormouse/contract'
import { request } from '@dormouse/process'
import { hostOf, isPublic } from './addresses.ts'

export interface RequestOptions {
  allowPrivate: boolean
  /** The addresses of a name. By default asks the DNS servers of the system, without its thread pool. */
  resolve?: (name: string, signal: AbortSignal) => Promise<string[]>
  timeoutMs?: number
}

export interface Outcome {
  status: number | null
  /** Null: a status from 200 to 299. */
  error: DeliveryError | null
  ms: number
}

const defaultTimeoutMs = 10_000
/** A short response leaves the connection usable for the next delivery. Of a longer or slower one, the connection is closed. */
const responseMax = { bytes: 16_384, ms: 500 }
const userAgent = 'Dormouse-Webhooks/1'

/** Why no connection was made, or none was left. */
class Failed extends Error {
  readonly reason: DeliveryError

  constructor(reason: DeliveryError) {
    super(reason)
    this.reason = reason
  }
}

/** Requests to one receiver, on a few connections. */
export class Receiver implements Disposable {
  readonly #url: URL
  readonly #options: RequestOptions
  readonly #agent: http.Agent
  readonly #ended = new AbortController()

  constructor(url: string, connections: number, options: RequestOptions) {
    this.#url = new URL(url)
    this.#options = options
    const agent = { keepAlive: true, maxSockets: connections, maxFreeSockets: connections }
    this.#agent = this.#url.protocol === 'https:' ? new https.Agent(agent) : new http.Agent(agent)
  }

  /** Never throws, unless the signal is aborted. */
  async post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<Outcome> {
    const began = performance.now()
    const deadline = AbortSignal.timeout(this.#options.timeoutMs ?? defaultTimeoutMs)
    const ended = AbortSignal.any([deadline, signal, this.#ended.signal])
    const outcome = await this.#post(headers, body, ended).then(judge, (error: unknown) => ({
      status: null,
      error: deadline.aborted ? ('timeout' as const) : reasonOf(error),
    }))
    signal.throwIfAborted()
    return { ...outcome, ms: Math.round(performance.now() - began) }
  }

  /** Closes its connections. */
  [Symbol.dispose](): void {
    this.#ended.abort()
    this.#agent.destroy()
  }

  /** The status. */
  async #post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<number> {
    const host = hostOf(this.#url)
    // Node resolves no address, so `lookup` would not see it.
    if (isIP(host) && !this.#isAllowed(host)) throw new Failed('address_refused')
    const { status, body: response } = await request(this.#url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'user-agent': userAgent },
      body,
      agent: this.#agent,
      lookup: this.#lookup(signal),
      signal,
    })
    discard(response)
    return status
  }

  #isAllowed(address: string): boolean {
    return this.#options.allowPrivate || isPublic(address)
  }

  /** The connection goes to the addresses that were checked here: a second look-up could answer others. */
  #lookup(signal: AbortSignal): LookupFunction {
    return (name, { all }, callback) => {
      this.#addresses(name, signal).then(
        (addresses) => {
          const found = addresses.map((address) => ({ address, family: isIP(address) }))
          if (all) callback(null, found)
          else callback(null, found[0]!.address, found[0]!.family)
        },
        (error: Error) => callback(error, ''),
      )
    }
  }

  async #addresses(name: string, signal: AbortSignal): Promise<string[]> {
    const { resolve = resolveByDns, allowPrivate } = this.#options
    const isLocal = allowPrivate && /^localhost\.?$/.test(name)
    const found = isLocal ? ['127.0.0.1', '::1'] : await resolve(name, signal).catch(() => [])
    if (found.length === 0) throw new Failed('name_not_resolved')
    // One private address among public ones is not chosen either.
    if (!found.every((address) => this.#isAllowed(address))) throw new Failed('address_refused')
    return found
  }
}

/** `getaddrinfo` would occupy one of the process's few threads for as long as a DNS server is silent. */
async function resolveByDns(name: string, signal: AbortSignal): Promise<string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 })
  const cancel = () => resolver.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  try {
    const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    return found.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

/** Reads a short rest, so that the connection can be used again; otherwise closes the connection. */
function discard(response: http.IncomingMessage): void {
  let bytes = 0
  const cut = () => response.destroy()
  const timer = setTimeout(cut, responseMax.ms).unref()
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > responseMax.bytes) cut()
  })
  response.on('close', () => clearTimeout(timer))
}

function judge(status: number): Omit<Outcome, 'ms'> {
  if (status >= 200 && status < 300) return { status, error: null }
  return { status, error: status >= 300 && status < 400 ? 'redirect' : 'status' }
}

function reasonOf(error: unknown): DeliveryError {
  if (error instanceof Failed) return error.reason
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (error instanceof AggregateError && error.errors.some((each) => each instanceof Failed)) return 'address_refused'
  return /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|EPROTO)/.test(code) ? 'tls' : 'connection'
}
