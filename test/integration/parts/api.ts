// A request as any program may send it, and its answer whole. Knows no route, and is not the SDK: a test of the contract
// must be able to send what the SDK never would.
import { request as httpRequest } from 'node:http'
import { checked } from '../../openapi.ts'

export interface ApiWish {
  /** An API key; null sends no credential. */
  key?: string | null
  /** Sent as JSON; a string or bytes as they are; undefined sends none. */
  body?: unknown
  headers?: Record<string, string | string[]>
  signal?: AbortSignal
}

export interface ApiAnswer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  /** The body as JSON; undefined if it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into answers of every shape, also of wrong ones.
  json: any
}

/** Sends one request over a connection of its own. The answer is held to the service's own OpenAPI document. */
export async function send(url: string, method: string, wish: ApiWish): Promise<ApiAnswer> {
  const answer = await sendOnce(url, method, wish)
  const { origin } = new URL(url)
  return checked(origin, { method, path: url.slice(origin.length), ...answer })
}

function sendOnce(url: string, method: string, wish: ApiWish): Promise<ApiAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ApiAnswer>()
  const raw = typeof wish.body === 'string' || wish.body instanceof Uint8Array
  const body =
    wish.body === undefined || raw ? (wish.body as string | Uint8Array | undefined) : JSON.stringify(wish.body)
  const authorization: Record<string, string> = wish.key ? { authorization: `Bearer ${wish.key}` } : {}
  const headers = {
    ...authorization,
    'content-length': String(body === undefined ? 0 : Buffer.byteLength(body)),
    ...wish.headers,
  }
  const target = new URL(url)
  const sent = httpRequest(
    {
      host: target.hostname,
      port: target.port,
      path: url.slice(target.origin.length),
      method,
      headers,
      agent: false,
      ...(wish.signal && { signal: wish.signal }),
    },
    (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8')
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) })
      })
    },
  )
  sent.on('error', reject)
  sent.end(body)
  return promise
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
