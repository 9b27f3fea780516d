// How this machine reaches a control plane: over HTTP as an enrolment goes, then by a link as the agent goes.
import type { TLSSocket } from 'node:tls'
import { DialRefused } from '@dormouse/link'
import { request } from '@dormouse/process'
import type { Identity } from './identity.ts'
import { tryLink } from './try-link.ts'
import { type Unreachable, whyUnreachable } from './unreachable.ts'

export interface Reached {
  /** Undefined over plain HTTP. */
  certificateEnds: Date | undefined
  /** Our clock minus its clock, and by how much that may be wrong; undefined if it does not tell the time. */
  clock: { offsetMs: number; errorMs: number } | undefined
  /** What prevents a link; undefined if there is one. */
  noLink: Omit<Unreachable, 'lasts'> | undefined
}

const timeoutMs = 15_000

/** Throws what a request throws. */
export async function lookAtControlPlane(url: string, identity: Identity | undefined): Promise<Reached> {
  const began = Date.now()
  const signal = AbortSignal.timeout(timeoutMs)
  const { headers, body } = await request(new URL(`${url.replace(/\/+$/, '')}/readyz`), { signal })
  const ended = Date.now()
  const certificate = (body.socket as Partial<TLSSocket>).getPeerCertificate?.()
  body.destroy()
  return {
    certificateEnds: certificate?.valid_to ? new Date(certificate.valid_to) : undefined,
    clock: clockOf(headers.date, began, ended),
    noLink: await tryLink(url, identity).then(() => undefined, whyNoLink),
  }
}

/** The header has whole seconds. */
function clockOf(date: string | undefined, began: number, ended: number): Reached['clock'] {
  const theirs = Date.parse(date ?? '')
  if (Number.isNaN(theirs)) return undefined
  return { offsetMs: (began + ended) / 2 - (theirs + 500), errorMs: 500 + (ended - began) / 2 }
}

function whyNoLink(error: unknown): Omit<Unreachable, 'lasts'> {
  if (!(error instanceof DialRefused) || error.status === undefined) return whyUnreachable(error)
  const { status, detail = `it answers ${status}` } = error
  if (status === 401 || status === 403)
    return { what: `it refuses this host: ${detail}`, remedy: 'use the control plane at which this host was enrolled' }
  if (status >= 500) return { what: detail, remedy: 'check that its database is there: /readyz says why' }
  return {
    what: `it answers ${status} in place of a WebSocket`,
    remedy: 'a control plane has to answer there, and a proxy before it has to pass WebSockets on',
  }
}
