// The parts of the document about answers beyond their bodies: meanings, headers, problems. Pure; knows no route.
import { STATUS_CODES } from 'node:http'
import { messageOf, type ProblemJson, type RefusalCode, refusals } from '@dormouse/contract'

export type ProblemStatus = 400 | 401 | 403 | 404 | 409 | 410 | 413 | 415 | 416 | 426 | 429 | 500 | 501 | 503 | 504

/** What one success means. */
export interface Answer {
  what: string
  /** Headers of its own, by name, each with its meaning. */
  headers?: Record<string, string>
  /** The media type, or each that it may have, if the body is bytes and not JSON. */
  bytes?: string | readonly string[]
  /** The media type of a stream of text that the route can send in place of JSON. */
  stream?: string
}

export type Answers = Readonly<Record<number, string | Answer>>

interface Header {
  description: string
  required?: boolean
  schema: { type: 'string' | 'integer' }
}

export type Content = Record<string, { schema: object; example?: unknown }>

export interface DocumentedResponse {
  description: string
  headers?: Record<string, Header | { $ref: string }>
  content?: Content
}

const header = (description: string, type: 'string' | 'integer' = 'string'): Header => ({
  description,
  schema: { type },
})

export const sharedHeaders = {
  RequestId: { ...header('Finds the request in the service’s log'), required: true },
  RetryAfter: { ...header('Seconds after which the exact request may be sent again', 'integer'), required: true },
  Challenge: { ...header('The kind of credential that is needed: `Bearer`'), required: true },
  Replayed: header(
    '`true`: the Idempotency-Key was used before, and this is the earlier record. `mismatch`: so it was, with another body',
  ),
  Woke: header(
    'Present if the call has woken its desktop, or has waited for a wake: how it woke, and for how long the call has waited, as `path=warm; ms=83`',
  ),
  UploadOffset: header('On `upload_offset`: how many bytes the guest has', 'integer'),
  UnsatisfiedRange: { ...header('The file’s size, as `bytes */11`'), required: true },
  BodyCodings: { ...header('The codings of a body that are taken: `identity`'), required: true },
  Upgrade: { ...header('The protocol that is needed: `websocket`'), required: true },
  RateLimit: header('Requests a second that one caller may send', 'integer'),
  RateLimitRemaining: header('How many of them are left', 'integer'),
  RateLimitReset: header('Seconds until they are all there again', 'integer'),
}

const headerRef = (name: keyof typeof sharedHeaders) => ({ $ref: `#/components/headers/${name}` })
const requestId = { 'x-request-id': headerRef('RequestId') }
const woke = { 'dormouse-woke': headerRef('Woke') }
const retryAfter = { 'retry-after': headerRef('RetryAfter') }

interface ProblemText {
  what: string
  code: RefusalCode
  detail: string
  field?: string
  headers?: Record<string, { $ref: string }>
}

const problemTexts: Record<ProblemStatus, ProblemText> = {
  400: {
    what: 'The request is not valid; `field` names the part',
    code: 'invalid_request',
    detail: 'tier: must be small, default or large',
    field: 'tier',
  },
  401: {
    what: 'Missing or invalid credentials',
    code: 'unauthenticated',
    detail: messageOf('unauthenticated'),
    headers: { 'www-authenticate': headerRef('Challenge') },
  },
  403: {
    what: 'The credential does not allow this, or the organisation is suspended',
    code: 'forbidden',
    detail: messageOf('forbidden'),
  },
  404: {
    what: 'Not found, or in another organisation; the response is the same for both',
    code: 'not_found',
    detail: messageOf('not_found'),
  },
  409: {
    what: 'The current state does not permit this; `code` says why',
    code: 'wrong_state',
    detail: 'the desktop is awake; wake is possible when it is created, hibernated or stopped',
    // A replay that waited may find that the earlier operation failed.
    headers: { 'idempotency-replayed': headerRef('Replayed'), 'upload-offset': headerRef('UploadOffset') },
  },
  410: {
    what: 'Events after the cursor are no longer kept; `oldest_cursor` is the oldest cursor to continue from',
    code: 'cursor_gone',
    detail: messageOf('cursor_gone'),
  },
  413: {
    what: 'The body is too large for this route',
    code: 'payload_too_large',
    detail: messageOf('payload_too_large'),
  },
  415: {
    what: 'The body is compressed or encoded; send it without that',
    code: 'unsupported_coding',
    detail: messageOf('unsupported_coding'),
    headers: { 'accept-encoding': headerRef('BodyCodings') },
  },
  416: {
    what: 'The range is outside the file',
    code: 'range_not_satisfiable',
    detail: messageOf('range_not_satisfiable'),
    headers: { 'content-range': headerRef('UnsatisfiedRange') },
  },
  426: {
    what: 'The request does not ask for a WebSocket',
    code: 'upgrade_required',
    detail: messageOf('upgrade_required'),
    headers: { upgrade: headerRef('Upgrade') },
  },
  429: {
    what: 'Too many requests, connections or bytes in flight with this credential or from this address',
    code: 'rate_limited',
    detail: refusals.rate_limited.detail({ perSecond: 100 }),
    headers: {
      ...retryAfter,
      'x-ratelimit-limit': headerRef('RateLimit'),
      'x-ratelimit-remaining': headerRef('RateLimitRemaining'),
      'x-ratelimit-reset': headerRef('RateLimitReset'),
    },
  },
  500: {
    what: 'Internal error; quote the request id to the operator',
    code: 'internal',
    detail: refusals.internal.detail({ requestId: '0b6f1c3e-4d0f-4a35-9d54-1c2f5e6a7b80' }),
  },
  501: {
    what: 'Not implemented',
    code: 'not_implemented',
    detail: 'forking is not implemented; create another desktop',
  },
  503: {
    what: 'Not possible now: this replica does not lead, or the host, the guest, the identity provider or the database is unavailable. The same request is safe to send again; a command without an Idempotency-Key may have begun, as `detail` then says',
    code: 'not_leader',
    detail: messageOf('not_leader'),
    headers: retryAfter,
  },
  504: {
    what: 'It exceeded its deadline in the guest, and was ended. The same request is safe to send again; without an Idempotency-Key it runs a command again',
    code: 'guest_deadline',
    detail: messageOf('guest_deadline'),
  },
}

const problemName = (status: ProblemStatus): string => `Problem${status}`

/** Each problem that some route has, once, to be referred to. */
export function sharedProblems(statuses: ReadonlySet<number>): Record<string, DocumentedResponse> {
  const known = Object.keys(problemTexts).map(Number) as ProblemStatus[]
  const used = known.filter((status) => statuses.has(status))
  return Object.fromEntries(used.map((status) => [problemName(status), problemResponse(status)]))
}

function problemResponse(status: ProblemStatus): DocumentedResponse {
  const { what, code, detail, field, headers } = problemTexts[status]
  const title = STATUS_CODES[status]!
  const example: ProblemJson = { type: 'about:blank', title, status, detail, code, ...(field && { field }) }
  return {
    description: what,
    headers: { ...requestId, ...woke, ...headers },
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' }, example } },
  }
}

/** The problems of a route, as references. */
export function problemsOf(statuses: Iterable<ProblemStatus>): Record<string, { $ref: string }> {
  const sorted = [...new Set(statuses)].sort((a, b) => a - b)
  return Object.fromEntries(
    sorted.map((status) => [String(status), { $ref: `#/components/responses/${problemName(status)}` }]),
  )
}

const binary = { schema: { type: 'string', format: 'binary' } }

/** A JSON answer that also has `woke`. */
function tellingWoke(content: Content = {}): Content {
  const woken = { $ref: '#/components/schemas/Woken' }
  const both = ({ schema, ...media }: Content[string]) => ({ ...media, schema: { allOf: [schema, woken] } })
  return Object.fromEntries(Object.entries(content).map(([type, media]) => [type, both(media)]))
}

/** A success as made from its schema, with what it means and its headers. */
export function documented(
  made: DocumentedResponse | undefined,
  answer: string | Answer,
  { keyed, wakes }: { keyed: boolean; wakes: boolean },
): DocumentedResponse {
  const { what, headers = {}, bytes, stream }: Answer = typeof answer === 'string' ? { what: answer } : answer
  const own = Object.entries(headers).map(([name, says]) => [name, header(says)])
  const streamed = stream && { [stream]: { schema: { type: 'string' } } }
  const content = bytes
    ? { ...Object.fromEntries([bytes].flat().map((type) => [type, binary])), ...streamed }
    : { ...(wakes ? tellingWoke(made?.content) : made?.content), ...streamed }
  return {
    description: what,
    headers: {
      ...requestId,
      ...(keyed && { 'idempotency-replayed': headerRef('Replayed') }),
      ...(wakes && woke),
      ...Object.fromEntries(own),
    },
    // A 204 has none.
    ...(Object.keys(content).length > 0 && { content }),
  }
}
