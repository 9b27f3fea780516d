// Verifies access tokens (JWT) and reads the caller from their claims. Knows no HTTP.
import { isId, parseSelector, Refusal, type Right, refuse, rights, SelectorError } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import type { Scope } from './scope.ts'
import type { SigningKeys } from './signing-keys.ts'

export interface AccessTokensOptions {
  issuer: string
  audience: string
  /** The claim that names the organisation. */
  orgClaim: string
  keys: SigningKeys
  log: Log
}

export interface Caller {
  orgId: string
  /** Null for a token without `sub`. */
  subject: string | null
  /** How long the token is still valid, with leeway. */
  validMs: number
  /** Null: every right. */
  can: readonly Right[] | null
  scope: Scope | null
}

/** The claims that limit a token, if it has them. */
const limitClaims = { can: 'dormouse_can', select: 'dormouse_select' } as const

/** Asymmetric only: a published key must never be enough to sign with. */
const algorithms = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ')
const leewaySecs = 30
const maxLength = 8_192
const form = /^[\w-]+\.[\w-]+\.[\w-]+$/

export class AccessTokens {
  readonly #options: AccessTokensOptions

  constructor(options: AccessTokensOptions) {
    this.#options = options
  }

  /** The token's caller. Refuses with `unauthenticated`, or `idp_unreachable` if the issuer's keys are unavailable. */
  async verify(token: string): Promise<Caller> {
    const { issuer, audience, keys } = this.#options
    if (!isWorthAKey(token, issuer)) return refuse('unauthenticated')
    try {
      const { payload } = await jwtVerify(token, (header, jws) => keys.find(header, jws), {
        issuer,
        audience,
        algorithms,
        requiredClaims: ['exp'],
        clockTolerance: leewaySecs,
      })
      return this.#caller(payload)
    } catch (error) {
      throw this.#refusal(error)
    }
  }

  #caller(payload: JWTPayload): Caller {
    const { issuer, orgClaim } = this.#options
    const org = Object.hasOwn(payload, orgClaim) ? payload[orgClaim] : undefined
    if (typeof org !== 'string' || !isId(org))
      return refuse(
        'unauthenticated',
        'the access token names no organisation of this service; ask the operator which claim it needs',
      )
    const subject = typeof payload.sub === 'string' && payload.sub !== '' ? `jwt:${issuer}:${payload.sub}` : null
    return {
      orgId: org.toLowerCase(),
      subject,
      validMs: (payload.exp! + leewaySecs) * 1_000 - Date.now(),
      can: rightsIn(payload),
      scope: scopeIn(payload),
    }
  }

  #refusal(error: unknown): Refusal {
    const { log } = this.#options
    if (error instanceof Refusal) return error
    if (error instanceof errors.JWTExpired)
      return new Refusal('unauthenticated', 'the access token has expired; get a new one')
    if (error instanceof errors.JOSEError) {
      log.debug({ code: error.code, why: error.message }, 'an access token was refused')
      return new Refusal('unauthenticated')
    }
    // The token is well-formed, so the issuer's key is unusable.
    log.warn({ err: error }, 'a key of the identity provider cannot be used')
    return new Refusal('idp_unreachable', 'the identity provider’s keys cannot be used; retry')
  }
}

/** Checks form, algorithm and issuer before any key is fetched, so that garbage costs the issuer nothing. */
function isWorthAKey(token: string, issuer: string): boolean {
  if (token.length > maxLength || !form.test(token)) return false
  try {
    return algorithms.includes(decodeProtectedHeader(token).alg ?? '') && decodeJwt(token).iss === issuer
  } catch {
    return false
  }
}

/** A claim that cannot be read must not become every right. */
function rightsIn(payload: JWTPayload): Right[] | null {
  const name = limitClaims.can
  if (!Object.hasOwn(payload, name)) return null
  const claim = payload[name]
  const words: unknown[] =
    typeof claim === 'string' ? claim.split(' ').filter(Boolean) : Array.isArray(claim) ? claim : [claim]
  const unknown = words.some((word) => !rights.some((right) => right === word))
  if (unknown)
    refuse(
      'unauthenticated',
      `the claim \`${name}\` of the access token must be some of ${rights.join(', ')}, as a list or separated by spaces`,
    )
  return rights.filter((right) => words.includes(right))
}

function scopeIn(payload: JWTPayload): Scope | null {
  const name = limitClaims.select
  if (!Object.hasOwn(payload, name)) return null
  const claim = payload[name]
  if (typeof claim !== 'string')
    return refuse('unauthenticated', `the claim \`${name}\` of the access token must be a selector, as a string`)
  try {
    return { selector: parseSelector(claim) }
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error
    return refuse('unauthenticated', `the claim \`${name}\` of the access token is not a selector: ${error.message}`)
  }
}
