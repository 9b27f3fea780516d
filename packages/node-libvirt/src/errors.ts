/** What can go wrong with a call: the daemon refused, the connection broke, or we stopped waiting. */
import { errorCode } from './constants.ts'

/** The daemon's own refusal. `domain` is the part of libvirt that speaks, `level` 2 for an error. */
export class LibvirtError extends Error {
  override name = 'LibvirtError'
  readonly code: number
  readonly domain: number
  readonly level: number
  readonly procedure: string

  constructor(facts: { code: number; domain: number; level: number; message: string | undefined; procedure: string }) {
    super(facts.message ?? `libvirt error ${facts.code}`)
    this.code = facts.code
    this.domain = facts.domain
    this.level = facts.level
    this.procedure = facts.procedure
  }
}

/**
 * The connection is gone. `sent` false: the call never left and surely did not run; true: its outcome is unknown, the
 * daemon may still be at it, read the state back.
 */
export class ConnectionLost extends Error {
  override name = 'ConnectionLost'
  readonly sent: boolean
  readonly procedure: string | undefined

  constructor(sent: boolean, procedure: string | undefined, cause: Error) {
    const outcome = sent ? 'was sent, its outcome is unknown' : 'was not sent'
    super(`no connection to libvirt (${cause.message})${procedure ? `: ${procedure} ${outcome}` : ''}`, { cause })
    this.sent = sent
    this.procedure = procedure
  }
}

/** We stopped waiting. libvirt has no cancel: if `sent`, the call goes on in the daemon and keeps its slot. */
export class CallTimeout extends Error {
  override name = 'CallTimeout'
  readonly sent: boolean
  readonly procedure: string

  constructor(sent: boolean, procedure: string) {
    super(`${procedure} timed out ${sent ? 'waiting for its reply, its outcome is unknown' : 'before it was sent'}`)
    this.sent = sent
    this.procedure = procedure
  }
}

/** Whether the error is libvirt's, with one of the named codes if any are given. */
export function isLibvirtError(error: unknown, ...codes: (keyof typeof errorCode)[]): error is LibvirtError {
  if (!(error instanceof LibvirtError)) return false
  return codes.length === 0 || codes.some((code) => errorCode[code] === error.code)
}
