// Turns every error into an RFC 9457 problem. No other file does.
import { STATUS_CODES } from 'node:http'
import { factsOf, messageOf, noSuchRoute, type ProblemJson, Refusal, refusals } from '@dormouse/contract'
import { CallFailed } from '@dormouse/link'
import { scrub } from '@dormouse/process'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { CommitUnknown, isDatabaseUnavailable } from '../db/pool.ts'
import { invalidRequest } from './validation.ts'

/** What fastify itself refuses, by its codes. */
const ofFastify: Record<string, () => Refusal> = {
  FST_ERR_MAX_PARAM_LENGTH: () => new Refusal('invalid_request', 'part of the path is too long; shorten it'),
  // A method that no route takes.
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: noSuchRoute,
  FST_ERR_BAD_URL: () => new Refusal('invalid_request', 'the path is not a valid URL path; percent-encode it'),
}

/** The refusal that an error stands for; undefined for a bug. */
export function asRefusal(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return factsOf(error.code).internalOnly ? outwards(error) : error
  // The host's log has the whole cause.
  if (error instanceof CallFailed) {
    return new Refusal('guest_unavailable', messageOf('hypervisor_failed'), { cause: error.message })
  }
  const { code, validation, validationContext } = error as FastifyError
  if (validation) return invalidRequest(validation[0], validationContext)
  return ofFastify[code]?.()
}

/** A code that is for the service alone. The host began nothing, and a retry finds the true state. */
const outwards = ({ code, detail, extra }: Refusal): Refusal =>
  new Refusal('guest_unavailable', messageOf(code), { cause: `${code}: ${extra.cause ?? detail}` })

export function problemOf(refusal: Refusal): ProblemJson {
  const { code, detail, extra, status } = refusal
  const { field, state, claim, holder, since, human_active, operation_id, cause_code, oldest_cursor } = extra
  const { right, desktop_id, quota, exec_id, stdout, stderr, stdout_truncated, stderr_truncated } = extra
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    // A 400 quotes the caller, who may have put a credential in the wrong place.
    detail: status === 400 ? scrub(detail) : detail,
    code,
    field: field && scrub(field),
    right,
    state,
    claim,
    holder,
    since,
    human_active,
    operation_id,
    cause_code,
    oldest_cursor,
    desktop_id,
    quota,
    exec_id,
    stdout,
    stderr,
    stdout_truncated,
    stderr_truncated,
  }
}

function retryAfterSecs({ code, extra }: Refusal): number | undefined {
  const row: { status: number; retryAfterSecs?: number; spreads?: true } = refusals[code]
  const secs = extra.retryAfterSecs ?? row.retryAfterSecs
  return secs !== undefined && row.spreads ? secs + Math.round(Math.random() * secs) : secs
}

/** Sends a problem with the headers that belong to its status. */
export function sendProblem(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const retryAfter = retryAfterSecs(refusal)
  if (retryAfter !== undefined && refusal.status !== 504) reply.header('retry-after', String(retryAfter))
  if (refusal.status === 401) reply.header('www-authenticate', 'Bearer')
  if (refusal.status === 426) reply.header('upgrade', 'websocket')
  if (refusal.extra.hangUp) reply.header('connection', 'close')
  return reply
    .code(refusal.status)
    .headers(rateLimitHeaders(refusal))
    .header('content-type', 'application/problem+json')
    .serializer(JSON.stringify)
    .send(problemOf(refusal))
}

/** Sent on a refusal only, never within the limit. */
export function rateLimitHeaders({ extra: { rateLimit } }: Refusal): Record<string, string> {
  if (!rateLimit) return {}
  const { limit, resetSecs } = rateLimit
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': String(resetSecs),
  }
}

/** If the database failed before a mutation began, nothing was changed: it is safe to send again. */
function beforeMutation(error: unknown, { id, routeOptions }: FastifyRequest): Refusal | undefined {
  const { keyed, act } = routeOptions?.schema ?? {}
  if (keyed && isDatabaseUnavailable(error)) return new Refusal('database_unavailable')
  if (act && isDatabaseUnavailable(error)) {
    return new Refusal('database_unavailable', 'the database is unavailable; send the request again')
  }
  if (act && error instanceof CommitUnknown) {
    return new Refusal(
      'internal',
      `the database connection was lost during the commit; check whether the change was made before you send it again; the operator finds the request by its id, ${id}`,
    )
  }
  return undefined
}

/** As other servers log it. */
const clientClosedRequest = 499

/** What a wait ends with when its signal is aborted. */
const isAbort = (error: unknown): boolean => error instanceof Error && error.name === 'AbortError'

/** The error handler of every scope: sends refusals, logs bugs and hides them behind a bare 500. */
export function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = asRefusal(error) ?? beforeMutation(error, request)
  // An error of the body arrives outside the context of the request.
  const id = { request: request.id }
  if (refusal) {
    const { code, extra } = refusal
    if (extra.cause !== undefined) request.log.info({ ...id, code, cause: extra.cause }, 'a request was refused')
    if (code === 'internal') request.log.error({ ...id, err: error }, 'the outcome of an operator’s change is unknown')
    return sendProblem(reply, refusal)
  }
  if (reply.raw.destroyed && isAbort(error)) {
    // Nobody reads the response. The status is for the log and the metrics alone.
    request.log.debug({ ...id, err: error }, 'a client disconnected before its response')
    return reply.code(clientClosedRequest).send()
  }
  const what = isDatabaseUnavailable(error) ? 'the database is unavailable' : 'a request failed'
  request.log.error({ ...id, err: error }, what)
  return sendProblem(reply, new Refusal('internal', refusals.internal.detail({ requestId: request.id })))
}
