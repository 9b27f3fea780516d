// The one way to send an HTTP request to a server that may be hostile. It always settles: by a response, by any way in which a
// connection can end without one, or by the caller's signal. Follows no redirect and knows no purpose.
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'

export interface RequestOptions {
  /** Ends the request and the body of its response. The caller's deadline is in it. */
  signal: AbortSignal
  method?: 'GET' | 'POST'
  headers?: Record<string, string>
  body?: string
  /** By default the connection ends with the response. */
  agent?: http.Agent
  lookup?: LookupFunction
}

export interface Response {
  /** From 200 to 599. */
  status: number
  headers: IncomingHttpHeaders
  /** Throws if the connection ends before the body does. Must be read or destroyed. */
  body: IncomingMessage
}

/** The server's response is not the HTTP that this client accepts. */
export class BadResponse extends Error {
  override readonly name = 'BadResponse'
}

const maxHeaderBytes = 16_384
/** How many statuses may come before the final one, such as 103. */
const maxInterimResponses = 16

/** The head of the response, and its body as it comes. Rejects with the signal's reason as soon as that is aborted. */
export function request(url: URL, options: RequestOptions): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>()
  const { signal, body } = options
  if (signal.aborted) return Promise.reject(signal.reason)
  const sent = send(url, options)
  let received: IncomingMessage | undefined
  const fail = (error: Error) => {
    reject(error)
    sent.destroy(error)
    received?.destroy(error)
  }
  // Not the request's own option: what it does depends on what the server has sent so far.
  const abort = () => fail(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  const forget = () => signal.removeEventListener('abort', abort)

  let interim = 0
  sent.on('information', ({ statusCode }) => {
    interim++
    if (statusCode === 101) fail(new BadResponse('the server switched to another protocol'))
    else if (interim > maxInterimResponses) fail(new BadResponse('the server sent only interim responses'))
  })
  sent.on('upgrade', (_response, socket) => {
    socket.destroy()
    fail(new BadResponse('the server switched to another protocol'))
  })
  sent.on('response', (response) => {
    received = response
    response.on('close', forget)
    // What reads the body gets the error, too.
    response.on('error', () => undefined)
    const { statusCode: status = 0, headers } = response
    if (status < 200 || status > 599) fail(new BadResponse(`the server answered with the status ${status}`))
    else resolve({ status, headers, body: response })
  })
  sent.on('error', fail)
  sent.on('close', () => {
    // Nothing may follow a close, so it is the last chance to settle.
    reject(new BadResponse('the connection ended without a response'))
    if (!received) forget()
  })
  sent.end(body)
  return promise
}

function send(url: URL, { method, headers, body, agent, lookup }: RequestOptions): http.ClientRequest {
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
  return (url.protocol === 'https:' ? https : http).request(url, {
    method: method ?? 'GET',
    agent: agent ?? false,
    maxHeaderSize: maxHeaderBytes,
    headers: { 'accept-encoding': 'identity', ...headers, ...length },
    ...(lookup && { lookup }),
  })
}

/** The whole body; one of more than this many bytes is refused before it is held in memory. */
export async function readBody({ headers, body }: Response, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    if ((headers['content-encoding'] ?? 'identity') !== 'identity')
      throw new BadResponse('the server sent compressed bytes although none were requested')
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > maxBytes) throw new BadResponse(`the server sent more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
  } finally {
    body.destroy()
  }
  return Buffer.concat(chunks).toString()
}
