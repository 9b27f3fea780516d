// Caches the issuer's signing keys. Cached keys work while the issuer is unavailable. However many tokens name unknown
// keys, there is one request to the issuer at a time, and at least `paceMs` between two.
import { setTimeout as sleep } from 'node:timers/promises'
import { refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import {
  type CryptoKey,
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JSONWebKeySet,
  type JWSHeaderParameters,
} from 'jose'

export interface SigningKeysOptions {
  fetch(): Promise<JSONWebKeySet>
  log: Log
  /** Minimum time between two requests to the issuer. */
  paceMs?: number
  /** Keys older than this are refreshed in the background, so that withdrawn keys stop working. */
  staleMs?: number
}

export class SigningKeys {
  readonly #options: Required<SigningKeysOptions>
  #known: ReturnType<typeof createLocalJWKSet> | undefined
  #fetchedAt = Number.NEGATIVE_INFINITY
  #lastRequest: { at: number; succeeded: boolean } = { at: Number.NEGATIVE_INFINITY, succeeded: true }
  #refreshing: Promise<boolean> | undefined

  constructor({ paceMs = 1_000, staleMs = 300_000, ...options }: SigningKeysOptions) {
    this.#options = { ...options, paceMs, staleMs }
  }

  /**
   * The key that a token's header names. An unknown key causes one refresh; then it is jose's JWKSNoMatchingKey, or
   * `idp_unreachable` if the refresh failed.
   */
  async find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> {
    const found = await this.#lookUp(header, token)
    if (found) {
      if (performance.now() - this.#fetchedAt > this.#options.staleMs) void this.#refresh()
      return found
    }
    if (!(await this.#refresh())) refuse('idp_unreachable')
    return this.#known!(header, token)
  }

  async #lookUp(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey | undefined> {
    try {
      return await this.#known?.(header, token)
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return undefined
      throw error
    }
  }

  /** Whether the keys are fresh now; never rejects. Concurrent calls share one request. */
  #refresh(): Promise<boolean> {
    this.#refreshing ??= this.#fetch().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #fetch(): Promise<boolean> {
    const { paceMs, fetch, log } = this.#options
    const waitMs = this.#lastRequest.at + paceMs - performance.now()
    if (waitMs > 0 && !this.#lastRequest.succeeded) return false
    // Wait for the next permitted request: a valid token with a new key must not be refused because of others' garbage.
    if (waitMs > 0) await sleep(waitMs)
    this.#lastRequest = { at: performance.now(), succeeded: false }
    try {
      this.#known = createLocalJWKSet(await fetch())
      this.#fetchedAt = performance.now()
      this.#lastRequest.succeeded = true
    } catch (error) {
      log.warn({ err: error }, 'the identity provider’s keys could not be fetched')
    }
    return this.#lastRequest.succeeded
  }
}
