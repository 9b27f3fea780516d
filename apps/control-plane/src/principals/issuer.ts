// Fetches the identity provider's key set, from the configured URL or the one in its discovery document. With a short
// timeout, without redirects, and with a size limit.
import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { readBody, request } from '@dormouse/process'
import type { JSONWebKeySet, JWK } from 'jose'
import { z } from 'zod'

export interface Issuer {
  /** Exactly as in the `iss` of its tokens. */
  issuer: string
  /** URL of its keys; null reads it from the discovery document. */
  jwksUrl: string | null
}

/** For discovery and keys together. */
const timeoutMs = 2_500
const maxBytes = 256 * 1024
const minRsaBits = 2_048

const keySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) })
const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Whether the URL is safe to fetch keys from: over TLS, or on this machine. */
export function isFetchable(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || (protocol === 'http:' && loopback.test(hostname))
}

/** The issuer's usable keys; throws on a timeout or an unusable response. */
export async function fetchKeySet({ issuer, jwksUrl }: Issuer): Promise<JSONWebKeySet> {
  const signal = AbortSignal.timeout(timeoutMs)
  const url = jwksUrl ?? (await discover(issuer, signal))
  const published: { keys: JWK[] } = keySet.parse(await fetchJson(url, signal))
  const keys = published.keys.filter(isUsable)
  // An empty set is valid: the issuer withdrew all its keys. A set without a usable key is not.
  if (keys.length === 0 && published.keys.length > 0) throw new Error(`${url} has no usable key`)
  return { keys }
}

/** Whether it can verify signatures. An issuer may also publish keys of unknown kinds. */
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
    // An issuer behind TLS must not redirect to a service of this machine.
    jwks_uri: z
      .string()
      .refine(isFetchable)
      .refine((url) => url.startsWith('https:') || issuer.startsWith('http:')),
  })
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  return document.parse(await fetchJson(url, signal)).jwks_uri
}

async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  const response = await request(new URL(url), { signal, headers: { accept: 'application/json' } })
  const text = await readBody(response, maxBytes)
  if (response.status !== 200) throw new Error(`${url} responded with ${response.status}`)
  return JSON.parse(text)
}
