/** How a call can fail: the daemon refused it, the connection was lost, or it timed out. */
import { errorCode } from './constants.ts'

/** The daemon refused the call. `domain` is the part of libvirt that reports it; `level` is 2 for an error. */
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
 * The connection is lost. If `sent` is false, the call did not run. If it is true, the outcome is unknown, and the daemon
 * may still be working on it: read the state back.
 */
export class ConnectionLost extends Error {
  override name = 'ConnectionLost'
  readonly sent: boolean
  readonly procedure: string | undefined

  constructor(sent: boolean, procedure: string | undefined, cause: Error) {
    const outcome = sent ? 'was sent, and its outcome is unknown' : 'was not sent'
    super(`no connection to libvirt (${cause.message})${procedure ? `: ${procedure} ${outcome}` : ''}`, { cause })
    this.sent = sent
    this.procedure = procedure
  }
}

/** The call timed out. libvirt cannot cancel calls: if `sent`, the daemon goes on with it, and it keeps its slot. */
export class CallTimeout extends Error {
  override name = 'CallTimeout'
  readonly sent: boolean
  readonly procedure: string

  constructor(sent: boolean, procedure: string) {
    super(`${procedure} timed out ${sent ? 'waiting for its reply, and its outcome is unknown' : 'before it was sent'}`)
    this.sent = sent
    this.procedure = procedure
  }
}

/** Whether the error is libvirt's, with one of the named codes if any are given. */
export function isLibvirtError(error: unknown, ...codes: (keyof typeof errorCode)[]): error is LibvirtError {
  if (!(error instanceof LibvirtError)) return false
  return codes.length === 0 || codes.some((code) => errorCode[code] === error.code)
}
