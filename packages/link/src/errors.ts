// How a call, a link or a channel may end badly. Each class is one answer to "was it done, and may I ask again?".
// Knows nothing of what was asked.

/** What one side says in words ends up in logs, answers and databases of the other. */
const maxDetailChars = 4_000
const maxCodeChars = 200

/** The words as far as they are repeated. */
const inBounds = (words: string): string =>
  words.length <= maxDetailChars ? words : `${words.slice(0, maxDetailChars).toWellFormed()}…`

/** The other side declined on purpose; code and detail are its own words. Thrown by a handler, it crosses further links intact. */
export class CallRefused extends Error {
  readonly refusal = true
  readonly code: string
  readonly detail: string

  constructor(code: string, detail: string) {
    const said = inBounds(detail)
    super(`${code}: ${said}`)
    this.name = 'CallRefused'
    this.code = code
    this.detail = said
  }
}

/** A bug on the other side. Its text stays there; its log names the same incident. */
export class CallFailed extends Error {
  readonly incident: string

  constructor(incident: string) {
    const said = incident.toWellFormed().replaceAll(/\p{Cc}+/gu, ' ')
    super(`the other side failed; its log has the cause under incident ${said}`)
    this.name = 'CallFailed'
    this.incident = said
  }
}

/** No answer within the caller's own deadline; the other side was told to stop, the outcome is unknown. */
export class CallTimeout extends Error {
  readonly timeoutMs: number

  constructor(call: string, timeoutMs: number) {
    super(`no answer to ${call} within ${timeoutMs} ms`)
    this.name = 'CallTimeout'
    this.timeoutMs = timeoutMs
  }
}

/** The link went before the answer came. `sent`: the outcome is unknown; not sent: it was surely not done. */
export class LinkLost extends Error {
  readonly sent: boolean
  readonly reason: string

  constructor(sent: boolean, reason: string) {
    super(`link lost ${sent ? 'before the answer' : 'before the call was sent'}: ${reason}`)
    this.name = 'LinkLost'
    this.sent = sent
    this.reason = reason
  }
}

/** The channel broke off: what was read may be a part only. */
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

/** A message larger than the link carries. Nothing of it was sent. */
export class FrameTooLarge extends Error {
  readonly bytes: number
  readonly maxFrameBytes: number

  constructor(bytes: number, maxFrameBytes: number) {
    super(`a frame of ${bytes} bytes is over the limit of ${maxFrameBytes}`)
    this.name = 'FrameTooLarge'
    this.bytes = bytes
    this.maxFrameBytes = maxFrameBytes
  }
}

/** The other side did not speak our protocol. Nothing after it can be trusted, so the link closes. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

/** No WebSocket came up. `status` and `detail` are there where HTTP answered. */
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
 * Anything thrown that says of itself that it is a refusal: known by its shape, so that no package must share a class. Its
 * words are cut where they are longer than anybody reads.
 */
export function asRefusal(error: unknown): { code: string; detail: string } | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { refusal, code, detail, message } = error as Record<string, unknown>
  if (refusal !== true || typeof code !== 'string' || code === '' || code.length > maxCodeChars) return undefined
  const text = typeof detail === 'string' ? detail : message
  return { code, detail: inBounds(typeof text === 'string' ? text : code) }
}
