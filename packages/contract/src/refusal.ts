// A refusal: a failure that was foreseen. Everything else that is thrown is a bug.
import type { DesktopState } from './desktops.ts'
import { factsOf, messageOf, type RefusalCode, refusals } from './refusals.ts'
import type { Right } from './rights.ts'
import type { StreamClaim } from './streams.ts'

interface Extra {
  /** On 400: the part of the request that is wrong. */
  field?: string
  /** The desktop's state, if the state is the reason. */
  state?: DesktopState
  /** The claim that another client holds. */
  claim?: StreamClaim
  /** Who holds it, since when (RFC 3339), and whether a person used the screen a moment ago. */
  holder?: string
  since?: string
  human_active?: boolean
  operation_id?: string
  /** What the credential lacks. */
  right?: Right
  /** The desktop that has the name. */
  desktop_id?: string
  /** The oldest cursor that can be read on from. */
  oldest_cursor?: string
  /** The name of the quota that is reached; without it, the limit of all desktops. */
  quota?: string
  /** The exec that goes on without the request. */
  exec_id?: string
  /** What a command had printed before its timeout: the beginning of each stream. */
  stdout?: string
  stderr?: string
  stdout_truncated?: boolean
  stderr_truncated?: boolean
  /** Why that operation failed. */
  cause_code?: RefusalCode
  retryAfterSecs?: number
  /** The request had been sent to its host when the host was lost: it may have been done. */
  mayBeDone?: true
  /** Sent as headers. */
  rateLimit?: { limit: number; resetSecs: number }
  /** For operators alone: in the log, never in a customer's response. */
  cause?: string
  /** Close the connection after the response. */
  hangUp?: true
}

export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** Read by the link: a refusal crosses it whole, any other error does not. */
  readonly refusal = true
  readonly code: RefusalCode
  readonly detail: string
  readonly extra: Extra

  constructor(code: RefusalCode, detail: string = messageOf(code), extra: Extra = {}) {
    super(`${code}: ${extra.cause ?? detail}`)
    this.code = code
    this.detail = detail
    this.extra = extra
  }

  get status(): number {
    return refusals[this.code].status
  }
}

/** Whether another replica leads since, or a later request for the desktop was accepted. */
export const isOvertaken = (error: unknown, by: 'leader' | 'request'): boolean =>
  error instanceof Refusal && factsOf(error.code).overtakenBy === by

/** Throws a refusal, by default in the table's words. Usable as an expression: `row ?? refuse('not_found')`. */
export function refuse(code: RefusalCode, detail?: string, extra?: Extra): never {
  throw new Refusal(code, detail, extra)
}

/** Throws a 400 with the field's name and what it must be. */
export function refuseField(field: string, why: string): never {
  throw new Refusal('invalid_request', refusals.invalid_request.detail({ field, why }), { field })
}

/** A refusal in the table's words. The cause is for operators: no text of a host, a hypervisor or a database goes further. */
export const refusalWithCause = (code: RefusalCode, cause: string, extra: Extra = {}): Refusal =>
  new Refusal(code, messageOf(code), { ...extra, cause })

/**
 * The 404 of every route. What is missing, what is another organisation's and what never existed get the same bytes. Only
 * a missing file of the caller's own desktop has a 404 of its own.
 */
export const notFound = (): Refusal => new Refusal('not_found')

/** The 404 of a path or method that no route takes. */
export const noSuchRoute = (): Refusal => new Refusal('no_such_route')

/** Throws the 404 of what is missing. Usable as an expression: `row ?? refuseNotFound()`. */
export function refuseNotFound(): never {
  throw notFound()
}
