// The SDK's errors: one class for each kind of failure that a program can act on.
import type { OperationJson, ProblemJson, RefusalCode } from '@dormouse/contract'
import type { Unanswered } from './unanswered.ts'

/** The request that failed. */
export interface FailedRequest {
  method: string
  path: string
}

/** The facts of a failure beside its message. */
export interface FailureFacts {
  request?: FailedRequest
  /** The problem body, if the service sent one. */
  problem?: ProblemJson
  status?: number
  requestId?: string
  /** From `Retry-After`, not yet capped. */
  retryAfterMs?: number
  operationId?: string
  operation?: OperationJson
  cause?: unknown
}

/** The base of all errors of the SDK. An aborted call throws its signal's reason instead. */
export class DormouseError extends Error {
  override name = 'DormouseError'
  declare readonly problem?: ProblemJson
  /** HTTP status; undefined if there was no response. */
  declare readonly status?: number
  /** Identifies the request in the service's log. */
  declare readonly requestId?: string
  declare readonly retryAfterMs?: number
  /** The operation that the failure concerns, if any. */
  declare readonly operationId?: string
  /** The request that failed; undefined if none was sent. */
  declare readonly method?: string
  declare readonly path?: string

  constructor(message: string, facts: FailureFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause })
    setKnown(this, {
      ...facts.request,
      problem: facts.problem,
      status: facts.status ?? facts.problem?.status,
      requestId: facts.requestId,
      retryAfterMs: facts.retryAfterMs,
      operationId: facts.operationId ?? facts.operation?.id ?? facts.problem?.operation_id,
    })
  }

  /** The refusal's code, for programs; undefined if the service sent none. */
  get code(): ProblemJson['code'] | undefined {
    return this.problem?.code
  }

  /** For logs: JSON.stringify leaves out an error's message by default. */
  toJSON() {
    const { name, code, message, method, path, status, operationId, requestId } = this
    return { name, code, message, method, path, status, operationId, requestId }
  }
}

/** What is not known is no property: a log shows what there is. */
function setKnown(error: DormouseError, facts: object): void {
  Object.assign(error, Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined)))
}

/** Names the request, unless the error names one. */
export function nameRequest(error: DormouseError, { method, path }: FailedRequest): void {
  if (error.method === undefined) setKnown(error, { method, path })
}

/** No response: refused, reset or unreachable. Whether the service acted is unknown. */
export class ConnectionError extends DormouseError {
  override name = 'ConnectionError'
  /** `cut` for every reason that has no word of its own. */
  readonly why: Unanswered

  constructor(message: string, facts: FailureFacts = {}, why: Unanswered = 'cut') {
    super(message, facts)
    this.why = why
  }
}

/** A timeout: the caller's own or, with status 504, the command's in the guest. */
export class TimeoutError extends DormouseError {
  override name = 'TimeoutError'
}

/** 400, or a value that the SDK refuses to send. `problem.field` names the part that is wrong. */
export class InvalidRequestError extends DormouseError {
  override name = 'InvalidRequestError'
}

/** 401: the credential is missing, unknown, expired or revoked. */
export class AuthenticationError extends DormouseError {
  override name = 'AuthenticationError'
}

/** 403: the credential is valid but does not allow this. */
export class PermissionDeniedError extends DormouseError {
  override name = 'PermissionDeniedError'
}

/** 404: missing, or another organisation's; the two cannot be told apart. */
export class NotFoundError extends DormouseError {
  override name = 'NotFoundError'
}

/** 409: the current state does not permit it; `code` and `problem.state` say why. */
export class ConflictError extends DormouseError {
  override name = 'ConflictError'
}

/** 409: the desktop is no longer on `expectedGeneration`. */
export class StaleGenerationError extends ConflictError {
  override name = 'StaleGenerationError'
}

/** The operation failed. The message says why and what to do; `causeCode` says why for programs. */
export class OperationFailedError extends ConflictError {
  override name = 'OperationFailedError'
  /** The operation, if the service sent it. */
  declare readonly operation?: OperationJson

  constructor(message: string, facts: FailureFacts = {}) {
    super(message, facts)
    if (facts.operation) this.operation = facts.operation
  }

  get causeCode(): RefusalCode | undefined {
    return this.problem?.cause_code ?? this.operation?.error_code ?? undefined
  }
}

/** 413: the body is too large for the route. */
export class PayloadTooLargeError extends DormouseError {
  override name = 'PayloadTooLargeError'
}

/** 429, still after the retries. */
export class RateLimitError extends DormouseError {
  override name = 'RateLimitError'
}

/** 503, still after the retries: leader, host, database or identity provider unavailable. Safe to send again. */
export class UnavailableError extends DormouseError {
  override name = 'UnavailableError'
}

/** 500, 501, and responses of a proxy in the service's place. */
export class ServerError extends DormouseError {
  override name = 'ServerError'
}

const byStatus: Record<number, typeof DormouseError> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  413: PayloadTooLargeError,
  429: RateLimitError,
  503: UnavailableError,
  504: TimeoutError,
}

/** The error for a response of this status. */
export function errorOf(status: number, message: string, facts: FailureFacts): DormouseError {
  return new (classOf(status, facts.problem))(message, { ...facts, status })
}

function classOf(status: number, problem: ProblemJson | undefined): typeof DormouseError {
  if (status === 409 && problem?.code === 'stale_generation') return StaleGenerationError
  if (status === 409 && problem?.code === 'operation_failed') return OperationFailedError
  return byStatus[status] ?? (status >= 500 ? ServerError : DormouseError)
}
