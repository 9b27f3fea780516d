// What can go wrong, one class for each thing a caller can act on. Knows nothing of how requests are sent.
import type { OperationJson, ProblemJson, RefusalCode } from '@dormouse/contract'

/** What is known of a failure beside its sentence. */
export interface FailureFacts {
  /** The service's own words, where it answered with a problem body. */
  problem?: ProblemJson
  status?: number
  requestId?: string
  /** From `Retry-After`, not yet capped. */
  retryAfterMs?: number
  operationId?: string
  operation?: OperationJson
  cause?: unknown
}

/** The base of every error the SDK throws by itself; an aborted call throws its signal's reason instead. */
export class DormouseError extends Error {
  override name = 'DormouseError'
  readonly problem?: ProblemJson
  /** HTTP status; undefined where no answer came. */
  readonly status?: number
  /** Finds the request in the service's log. */
  readonly requestId?: string
  readonly retryAfterMs?: number
  /** The operation the failure concerns, where there is one. */
  readonly operationId?: string

  constructor(message: string, facts: FailureFacts = {}) {
    super(message, { cause: facts.cause })
    this.problem = facts.problem
    this.status = facts.status ?? facts.problem?.status
    this.requestId = facts.requestId
    this.retryAfterMs = facts.retryAfterMs
    this.operationId = facts.operationId ?? facts.operation?.id ?? facts.problem?.operation_id
  }

  /** The refusal's code, for programs; undefined where the service gave none. */
  get code(): ProblemJson['code'] | undefined {
    return this.problem?.code
  }

  /** What happened, for logs and for programs that pass errors on: JSON leaves an error's message out by itself. */
  toJSON() {
    const { name, code, message, status, operationId } = this
    return { name, code, message, status, operationId }
  }
}

/** No answer came: refused, reset, unreachable. Whether the service acted is unknown. */
export class ConnectionError extends DormouseError {
  override name = 'ConnectionError'
}

/** A deadline passed: the caller's own, or (with a problem, 504) the one inside the guest. */
export class TimeoutError extends DormouseError {
  override name = 'TimeoutError'
}

/** 400, or a value the SDK itself refuses to send. */
export class InvalidRequestError extends DormouseError {
  override name = 'InvalidRequestError'
}

/** 401: the credential is missing, unknown, expired or revoked. */
export class AuthenticationError extends DormouseError {
  override name = 'AuthenticationError'
}

/** 403: the credential is genuine and may not do this. */
export class PermissionDeniedError extends DormouseError {
  override name = 'PermissionDeniedError'
}

/** 404: missing, or another organisation's; the two cannot be told apart. */
export class NotFoundError extends DormouseError {
  override name = 'NotFoundError'
}

/** 409: the state of things forbids it; `code` says which. */
export class ConflictError extends DormouseError {
  override name = 'ConflictError'
}

/** 409: `expectedGeneration` is not the desktop's generation any more. */
export class StaleGenerationError extends ConflictError {
  override name = 'StaleGenerationError'
}

/** The operation failed. The message says why and what to do; `causeCode` says why for programs. */
export class OperationFailedError extends ConflictError {
  override name = 'OperationFailedError'
  /** The whole record, where it was seen. */
  readonly operation?: OperationJson

  constructor(message: string, facts: FailureFacts = {}) {
    super(message, facts)
    this.operation = facts.operation
  }

  /** Undefined where the service is of an older release. */
  get causeCode(): RefusalCode | undefined {
    return this.problem?.cause_code ?? this.operation?.error_code ?? undefined
  }
}

/** 413: the body is larger than the route takes. */
export class PayloadTooLargeError extends DormouseError {
  override name = 'PayloadTooLargeError'
}

/** 429, still after the retries. */
export class RateLimitError extends DormouseError {
  override name = 'RateLimitError'
}

/** 503, still after the retries: no leader, host or identity provider out of reach. The request is safe to send again. */
export class UnavailableError extends DormouseError {
  override name = 'UnavailableError'
}

/** 500, 501 and what a proxy answers in the service's place. */
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

/** The error that stands for an answer of this status. */
export function errorOf(status: number, message: string, facts: FailureFacts): DormouseError {
  return new (classOf(status, facts.problem))(message, { ...facts, status })
}

function classOf(status: number, problem: ProblemJson | undefined): typeof DormouseError {
  if (status === 409 && problem?.code === 'stale_generation') return StaleGenerationError
  // A service that gives no codes still names the operation, which it does for nothing else.
  if (status === 409 && problem?.operation_id && (problem.code ?? 'operation_failed') === 'operation_failed')
    return OperationFailedError
  return byStatus[status] ?? (status >= 500 ? ServerError : DormouseError)
}
