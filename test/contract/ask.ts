// One request to any base URL, plain or TLS, and its answer whole. Knows no route. What the service says is safe to
// repeat is repeated here, so that a deployment with a rate limit and several replicas is judged by its answers.
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiAnswer, ApiWish } from '../integration/parts/api.ts'

const attempts = 5
const longestPauseSecs = 30
/** Longer than the cap of a wait. */
const requestTimeoutMs = 150_000

/** Sends a request, and retries it if the answer is 429 or 503 with a Retry-After. */
export async function ask(url: string, method: string, wish: ApiWish, signal: AbortSignal): Promise<ApiAnswer> {
  for (let attempt = 1; ; attempt++) {
    const answer = await once(url, method, wish, AbortSignal.any([signal, AbortSignal.timeout(requestTimeoutMs)]))
    const pauseSecs = Number(answer.headers['retry-after'])
    if (![429, 503].includes(answer.status) || !(pauseSecs >= 0) || attempt === attempts) return answer
    await sleep(Math.min(pauseSecs, longestPauseSecs) * 1000, undefined, { signal })
  }
}

function once(url: string, method: string, wish: ApiWish, signal: AbortSignal): Promise<ApiAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ApiAnswer>()
  const target = new URL(url)
  const body = bytesOf(wish.body)
  const headers = {
    ...(wish.key && { authorization: `Bearer ${wish.key}` }),
    ...(!wish.headers?.['transfer-encoding'] && { 'content-length': String(body?.byteLength ?? 0) }),
    ...wish.headers,
  }
  const { hostname, port } = target
  // The path as it was written: `..` is for the service to judge.
  const path = url.slice(target.origin.length)
  const request = target.protocol === 'https:' ? httpsRequest : httpRequest
  const sent = request({ hostname, port, path, method, headers, agent: false, signal }, (response) => {
    response.toArray().then((chunks: Buffer[]) => {
      const text = Buffer.concat(chunks).toString('utf8')
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) })
    }, reject)
  })
  sent.on('error', reject)
  sent.end(body)
  return promise
}

function bytesOf(body: unknown): Uint8Array | undefined {
  if (body === undefined || body instanceof Uint8Array) return body
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
