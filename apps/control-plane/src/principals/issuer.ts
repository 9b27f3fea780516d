// The identity provider as seen from here: its key set, fetched. Only what is configured is asked, and what its discovery
// document names; briefly, without redirects, and never for more than a few kilobytes.
import { createPublicKey, type JsonWebKey } from 'node:crypto'
import type { JSONWebKeySet, JWK } from 'jose'
import { z } from 'zod'

export interface Issuer {
  /** Exactly as in the `iss` of its tokens. */
  issuer: string
  /** Where its keys are; null asks its discovery document. */
  jwksUrl: string | null
}

/** For discovery and keys together: nobody waits longer for an issuer that hangs. */
const timeoutMs = 2_500
const maxBytes = 256 * 1024
const minRsaBits = 2_048

const keySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) })
const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Whether an issuer may be asked at this address: over TLS, or without leaving the machine. */
export function isFetchable(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || (protocol === 'http:' && loopback.test(hostname))
}

/** The usable keys of the issuer; throws where it cannot be reached in time or answers anything else. */
export async function fetchKeySet({ issuer, jwksUrl }: Issuer): Promise<JSONWebKeySet> {
  const signal = AbortSignal.timeout(timeoutMs)
  const url = jwksUrl ?? (await discover(issuer, signal))
  const published: { keys: JWK[] } = keySet.parse(await fetchJson(url, signal))
  const keys = published.keys.filter(isUsable)
  // None at all is an answer, by which an issuer withdraws every key it had; none that can be used is nonsense.
  if (keys.length === 0 && published.keys.length > 0) throw new Error(`${url} names no key that can be used`)
  return { keys }
}

/** Whether signatures can be checked with it. An issuer may also publish what we do not understand. */
function isUsable(key: JWK): boolean {
  try {
    const { asymmetricKeyDetails } = createPublicKey({ key: key as JsonWebKey, format: 'jwk' })
    return (asymmetricKeyDetails?.modulusLength ?? minRsaBits) >= minRsaBits
  } catch {
    return false
  }
}

async function discover(issuer: string, signal: AbortSignal): Promise<string> {
  const document = z.object({
    issuer: z.literal(issuer),
    // An issuer behind TLS sends nobody to a service of this machine.
    jwks_uri: z
      .string()
      .refine(isFetchable)
      .refine((url) => url.startsWith('https:') || issuer.startsWith('http:')),
  })
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  return document.parse(await fetchJson(url, signal)).jwks_uri
}

async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  const response = await fetch(url, { redirect: 'error', signal, headers: { accept: 'application/json' } })
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > maxBytes) throw new Error(`${url} answers more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  if (response.status !== 200) throw new Error(`${url} answers ${response.status}`)
  return JSON.parse(Buffer.concat(chunks).toString())
}
