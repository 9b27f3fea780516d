// The one table of refusals: every failure a caller can be told of, with its HTTP status and what to do.
import { z } from 'zod'

interface Row {
  status: number
  /** Sent as Retry-After, in seconds, on what is safe to send again. */
  retryAfterSecs?: number
  what: string
  /** Said between our own processes, never to a caller by itself. */
  inner?: true
}

/** `detail` is written where the refusal happens, or stands in `told.ts`; code, status and retry advice stand here. */
export const refusals = {
  invalid_request: { status: 400, what: 'Something in the request is malformed; `field` names it.' },
  unauthenticated: { status: 401, what: 'The credential is missing, malformed, unknown, expired or revoked.' },
  forbidden: { status: 403, what: 'The credential is genuine and may not do this.' },
  not_found: { status: 404, what: 'No such thing in the caller’s organisation.' },
  file_not_found: { status: 404, what: 'The desktop exists, the file in its guest does not.' },
  method_not_allowed: { status: 405, what: 'The path exists, but not with this method.' },
  stale_generation: { status: 409, what: '`expected_generation` is not the desktop’s generation.' },
  wrong_state: { status: 409, what: 'The desktop’s state does not permit this.' },
  not_awake: { status: 409, what: 'Guest operations need an awake desktop.' },
  operation_failed: { status: 409, what: 'The operation that was waited for failed; `operation_id` names it.' },
  claim_held: { status: 409, what: 'Another client holds the claim; ask with `takeover`, or later.' },
  quota_exceeded: {
    status: 409,
    what: 'The organisation has as many desktops as it may have: destroy one, or ask the operator for more.',
  },
  conflict: { status: 409, what: 'It exists already, or is in use.' },
  would_lose: { status: 409, what: 'More desktops would be lost than was confirmed; the detail says how many.' },
  invite_spent: { status: 409, what: 'The invitation was used before, or has expired: make a new one.' },
  not_directory: { status: 409, what: 'A part of the path names no directory in the guest.' },
  is_directory: { status: 409, what: 'The path names a directory in the guest.' },
  not_regular: { status: 409, what: 'The path names no regular file in the guest.' },
  symlink_loop: { status: 409, what: 'The path runs through a loop of symbolic links.' },
  permission_denied: { status: 409, what: 'The guest’s file system refuses access.' },
  read_only: { status: 409, what: 'The guest’s file system is read-only.' },
  no_space: { status: 409, what: 'The guest’s disk is full.' },
  command_not_run: { status: 409, what: 'The guest could not start the command (no such program, no such folder).' },
  payload_too_large: { status: 413, what: 'The body is larger than the route takes.' },
  rate_limited: {
    status: 429,
    retryAfterSecs: 1,
    what: 'Too many requests, connections or bytes under way with this credential or from this address.',
  },
  internal: { status: 500, what: 'A fault on our side; the request id finds it in the log.' },
  not_implemented: { status: 501, what: 'In the contract, but not a working feature.' },
  not_leader: {
    status: 503,
    retryAfterSecs: 1,
    what: 'This replica does not lead; send the request again, to any replica.',
  },
  database_unavailable: { status: 503, retryAfterSecs: 2, what: 'The database does not answer; nothing was changed.' },
  idp_unreachable: { status: 503, retryAfterSecs: 5, what: 'The identity provider does not answer.' },
  host_unreachable: { status: 503, retryAfterSecs: 5, what: 'The desktop’s host is out of reach.' },
  guest_unavailable: {
    status: 503,
    retryAfterSecs: 2,
    what: 'The guest does not answer, went away or stands still; the detail says which.',
  },
  stopping: { status: 503, retryAfterSecs: 1, what: 'This process is stopping; another one will answer.' },
  guest_deadline: { status: 504, retryAfterSecs: 1, what: 'It ran past its own deadline in the guest and was ended.' },
  // Why an operation fails. Never a direct answer: they stand in an operation's `error`, behind `operation_failed`.
  no_room: { status: 409, inner: true, what: 'No host has room for the desktop’s tier.' },
  no_host: { status: 409, inner: true, what: 'No host is linked that could take the desktop.' },
  host_away: { status: 409, inner: true, what: 'The one host that has the desktop’s disk cannot take it now.' },
  image_unavailable: { status: 409, inner: true, what: 'No host has the desktop’s image.' },
  memory_image_damaged: { status: 409, inner: true, what: 'The saved memory cannot be restored; it is kept.' },
  memory_image_missing: { status: 409, inner: true, what: 'The saved memory is not where it was left.' },
  memory_lost: { status: 409, inner: true, what: 'The guest’s memory is gone; its disk is kept.' },
  disk_missing: { status: 409, inner: true, what: 'The desktop’s disk is not where it was left.' },
  host_disk_full: { status: 409, inner: true, what: 'The host’s disk is full; nothing was lost.' },
  guest_silent: { status: 409, inner: true, what: 'The guest did not answer in time.' },
  hypervisor_failed: { status: 409, inner: true, what: 'The hypervisor refused or failed.' },
  host_removed: {
    status: 409,
    inner: true,
    what: 'The desktop’s host was removed for good, and its only disk with it.',
  },
  superseded: { status: 409, inner: true, what: 'A later request overtook this one.' },
  deadline_exceeded: { status: 409, inner: true, what: 'The operation did not settle before its deadline.' },
  // What an agent answers to a command that is out of date. Never seen by customers.
  stale_epoch: { status: 409, inner: true, what: 'The command comes from a leader that no longer leads.' },
  stale_turn: { status: 409, inner: true, what: 'A later command for this desktop was obeyed before.' },
  unknown_desktop: { status: 409, inner: true, what: 'This host has nothing of that desktop.' },
} as const satisfies Record<string, Row>

export type RefusalCode = keyof typeof refusals

/** Whether the code is for our own processes: a caller is never answered with it. */
export const isInner = (code: RefusalCode): boolean => 'inner' in refusals[code]

export const refusalCode = z.enum(Object.keys(refusals) as [RefusalCode, ...RefusalCode[]])

/** A failure that was foreseen: it has a code from the table, and a sentence for the one who asked. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** Read by the link: a refusal crosses it whole, any other error does not. */
  readonly refusal = true
  readonly code: RefusalCode
  readonly detail: string
  readonly extra: {
    field?: string
    operation_id?: string
    retryAfterSecs?: number
    /** Said in headers. */
    rateLimit?: { limit: number; resetSecs: number }
    /** For operators alone: the log shows it, and no answer to a customer. */
    cause?: string
    /** The connection is closed after it. */
    hangUp?: true
  }

  constructor(code: RefusalCode, detail: string, extra: Refusal['extra'] = {}) {
    super(`${code}: ${extra.cause ?? detail}`)
    this.code = code
    this.detail = detail
    this.extra = extra
  }

  get status(): number {
    return refusals[this.code].status
  }
}

/** Throws a refusal; stands where an expression is wanted: `row ?? refuse('not_found', …)`. */
export function refuse(code: RefusalCode, detail: string, extra?: Refusal['extra']): never {
  throw new Refusal(code, detail, extra)
}

/**
 * The 404 of every path: what is missing, what is somebody else's and what was never there are told in the same words.
 * Only a file of the caller's own desktop has another one.
 */
export const theOne404 = (): Refusal => new Refusal('not_found', 'there is no such thing, or it is not yours')

/** Throws it; stands where an expression is wanted: `row ?? missing()`. */
export function missing(): never {
  throw theOne404()
}

export const problemJson = z
  .object({
    type: z.literal('about:blank'),
    title: z.string().describe('Status phrase'),
    status: z.int(),
    detail: z.string().describe('Short human-readable text'),
    code: refusalCode.describe('The refusal, for programs'),
    field: z.string().optional().describe('On 400: what is malformed'),
    operation_id: z.string().optional().describe('Where the problem concerns an operation'),
  })
  .meta({ id: 'Problem' })
export type ProblemJson = z.infer<typeof problemJson>
