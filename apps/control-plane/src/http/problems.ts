// Every failure as an RFC 9457 problem. The one place that turns errors into answers.
import { STATUS_CODES } from 'node:http'
import { isInner, type ProblemJson, Refusal, type RefusalCode, refusals, theOne404, toldOf } from '@dormouse/contract'
import { CallFailed } from '@dormouse/link'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { CommitUnknown, isDatabaseAway } from '../db/pool.ts'

/** Where fastify itself refuses: its code against ours. */
const ofFastify: Record<string, [RefusalCode, string]> = {
  FST_ERR_MAX_PARAM_LENGTH: ['invalid_request', 'a part of the path is too long'],
  // A method that nothing here takes.
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: ['not_found', theOne404().detail],
  FST_ERR_BAD_URL: ['invalid_request', 'the path is not a valid URL path'],
}

/** The refusal that an error stands for; undefined for a bug. */
export function asRefusal(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return isInner(error.code) ? outwards(error) : error
  // The host's log has the cause, and names it to its operator.
  if (error instanceof CallFailed) {
    return new Refusal('guest_unavailable', toldOf('hypervisor_failed'), { cause: error.message })
  }
  const { code, validation, validationContext } = error as FastifyError
  if (validation) return invalid(validation[0], validationContext)
  const known = ofFastify[code]
  if (known) return new Refusal(known[0], known[1])
  return undefined
}

/** A host's word that is meant for us: nothing of it was begun, and what is true is known in a moment. */
const outwards = ({ code, detail, extra }: Refusal): Refusal =>
  new Refusal('guest_unavailable', toldOf(code), { cause: `${code}: ${extra.cause ?? detail}` })

interface Issue {
  instancePath?: string
  message?: string
  params?: unknown
}

/** A failed validation, by the name of the field as the caller wrote it. */
function invalid(issue: Issue | undefined, context: string | undefined): Refusal {
  const path = (issue?.instancePath ?? '').split('/').filter(Boolean)
  const unknownKeys = (issue?.params as { keys?: string[] } | undefined)?.keys
  const field = unknownKeys?.[0] ?? path.join('.')
  const where = field || context || 'request'
  return new Refusal('invalid_request', inShort(`${where}: ${issue?.message ?? 'invalid'}`), { field: inShort(where) })
}

/** A caller's own words come back to him: never more of them than a person reads. */
const inShort = (words: string): string => (words.length > 300 ? `${words.slice(0, 300).toWellFormed()}…` : words)

export function problemOf(refusal: Refusal): ProblemJson {
  const { code, detail, extra, status } = refusal
  const { field, operation_id } = extra
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    code,
    ...(field !== undefined && { field }),
    ...(operation_id !== undefined && { operation_id }),
  }
}

/** Sends a problem with the headers that belong to its status. */
export function sendProblem(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const row: { status: number; retryAfterSecs?: number } = refusals[refusal.code]
  const retryAfter = refusal.extra.retryAfterSecs ?? row.retryAfterSecs
  if (retryAfter !== undefined && refusal.status !== 504) reply.header('retry-after', String(retryAfter))
  if (refusal.status === 401) reply.header('www-authenticate', 'Bearer')
  if (refusal.extra.hangUp) reply.header('connection', 'close')
  return reply
    .code(refusal.status)
    .headers(rateLimitHeaders(refusal))
    .header('content-type', 'application/problem+json')
    .serializer(JSON.stringify)
    .send(problemOf(refusal))
}

/** On a refusal only: what is within its limit hears nothing of it. */
export function rateLimitHeaders({ extra: { rateLimit } }: Refusal): Record<string, string> {
  if (!rateLimit) return {}
  const { limit, resetSecs } = rateLimit
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': String(resetSecs),
  }
}

/** A mutation whose caller or leader could not even be looked up has changed nothing: it is safe to send again. */
function beforeMutation(error: unknown, { id, routeOptions }: FastifyRequest): Refusal | undefined {
  const { keyed, act } = routeOptions?.schema ?? {}
  if (keyed && isDatabaseAway(error)) {
    return new Refusal(
      'database_unavailable',
      'the database does not answer; nothing was changed, send the request again',
    )
  }
  if (act && isDatabaseAway(error)) {
    return new Refusal('database_unavailable', 'the database does not answer; send the request again')
  }
  if (act && error instanceof CommitUnknown) {
    return new Refusal(
      'internal',
      `the database went away while it wrote this down; look whether it was done before you send it again; request ${id} finds it in the log`,
    )
  }
  return undefined
}

/** The error handler of every scope: refusals are answered, the database's absence is said, bugs are logged and hidden. */
export function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = asRefusal(error) ?? beforeMutation(error, request)
  if (refusal) {
    const { code, extra } = refusal
    if (extra.cause !== undefined) request.log.info({ code, cause: extra.cause }, 'a request was refused')
    if (code === 'internal') request.log.error({ err: error }, 'the outcome of an act is not known')
    return sendProblem(reply, refusal)
  }
  request.log.error({ err: error }, isDatabaseAway(error) ? 'the database is away' : 'a request failed')
  return sendProblem(
    reply,
    new Refusal('internal', `something failed on our side; request ${request.id} finds it in the log`),
  )
}
