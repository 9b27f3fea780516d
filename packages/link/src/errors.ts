// How a call, a link or a channel can fail. Each class shows whether the work was done, and so whether a retry is safe.

/** Text of the other side ends up in our logs, responses and database. */
const maxDetailChars = 4_000
const maxCodeChars = 200

/** The text, cut if it is too long. */
const bounded = (text: string): string =>
  text.length <= maxDetailChars ? text : `${text.slice(0, maxDetailChars).toWellFormed()}…`

/** The other side refused the call, with this code and detail. Thrown by a handler, it crosses further links unchanged. */
export class CallRefused extends Error {
  readonly refusal = true
  readonly code: string
  readonly detail: string

  constructor(code: string, detail: string) {
    const text = bounded(detail)
    super(`${code}: ${text}`)
    this.name = 'CallRefused'
    this.code = code
    this.detail = text
  }
}

/** A bug on the other side. The error itself stays there; its log has it under the same incident. */
export class CallFailed extends Error {
  readonly incident: string

  constructor(incident: string) {
    const id = incident.toWellFormed().replaceAll(/\p{Cc}+/gu, ' ')
    super(`the other side failed; its log has the cause under incident ${id}`)
    this.name = 'CallFailed'
    this.incident = id
  }
}

/** No reply within the caller's timeout. The call was cancelled, and its outcome is unknown. */
export class CallTimeout extends Error {
  readonly timeoutMs: number

  constructor(call: string, timeoutMs: number) {
    super(`no reply to ${call} within ${timeoutMs} ms`)
    this.name = 'CallTimeout'
    this.timeoutMs = timeoutMs
  }
}

/** The link was lost before the reply. If `sent`, the outcome is unknown; otherwise the call was not made. */
export class LinkLost extends Error {
  readonly sent: boolean
  readonly reason: string

  constructor(sent: boolean, reason: string) {
    super(`link lost ${sent ? 'before the reply' : 'before the call was sent'}: ${reason}`)
    this.name = 'LinkLost'
    this.sent = sent
    this.reason = reason
  }
}

/** The channel was cut: what was read may be incomplete. */
export class ChannelLost extends Error {
  readonly closeCode: number
  readonly reason: string

  constructor(closeCode: number, reason: string) {
    super(`channel lost: ${reason}`)
    this.name = 'ChannelLost'
    this.closeCode = closeCode
    this.reason = reason
  }
}

/** The message exceeds the link's limit. It was not sent. */
export class FrameTooLarge extends Error {
  readonly bytes: number
  readonly maxFrameBytes: number

  constructor(bytes: number, maxFrameBytes: number) {
    super(`a frame of ${bytes} bytes exceeds the limit of ${maxFrameBytes}`)
    this.name = 'FrameTooLarge'
    this.bytes = bytes
    this.maxFrameBytes = maxFrameBytes
  }
}

/** The other side violated the protocol. Nothing after that can be trusted, so the link closes. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

/** No WebSocket was opened. `status` and `detail` are set if an HTTP response had the reason. */
export class DialRefused extends Error {
  readonly status: number | undefined
  readonly detail: string | undefined

  constructor(message: string, answer: { status?: number; detail?: string; cause?: unknown } = {}) {
    super(message, { cause: answer.cause })
    this.name = 'DialRefused'
    this.status = answer.status
    this.detail = answer.detail
  }
}

/**
 * The code and detail of anything thrown with `refusal: true`; undefined for other errors. A refusal is recognised by its
 * shape, so that packages need not share a class. A long detail is cut.
 */
export function asRefusal(error: unknown): { code: string; detail: string } | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { refusal, code, detail, message } = error as Record<string, unknown>
  if (refusal !== true || typeof code !== 'string' || code === '' || code.length > maxCodeChars) return undefined
  const text = typeof detail === 'string' ? detail : message
  return { code, detail: bounded(typeof text === 'string' ? text : code) }
}
