// The issuer's signing keys as last seen. What was fetched goes on working while the issuer is away; however many tokens
// name keys that nobody knows, it is asked one thing at a time and not more often than the pace allows.
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
  /** Least time between two questions to the issuer. */
  paceMs?: number
  /** Keys older than this are fetched anew behind the back of those they serve: a withdrawn key must go. */
  staleMs?: number
}

export class SigningKeys {
  readonly #options: Required<SigningKeysOptions>
  #known: ReturnType<typeof createLocalJWKSet> | undefined
  #fetchedAt = Number.NEGATIVE_INFINITY
  #asked: { at: number; well: boolean } = { at: Number.NEGATIVE_INFINITY, well: true }
  #refreshing: Promise<boolean> | undefined

  constructor({ paceMs = 1_000, staleMs = 300_000, ...options }: SigningKeysOptions) {
    this.#options = { ...options, paceMs, staleMs }
  }

  /**
   * The key that a token's header names. One that is not known is asked for once: then it is jose's JWKSNoMatchingKey,
   * or `idp_unreachable` where the issuer could not say.
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

  /** Whether the keys are fresh now; never rejects. Who comes while it is under way waits for the same answer. */
  #refresh(): Promise<boolean> {
    this.#refreshing ??= this.#ask().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #ask(): Promise<boolean> {
    const { paceMs, fetch, log } = this.#options
    const waitMs = this.#asked.at + paceMs - performance.now()
    if (waitMs > 0 && !this.#asked.well) return false
    // A key that was made this very second is worth waiting for: no good token is refused for others' garbage.
    if (waitMs > 0) await sleep(waitMs)
    this.#asked = { at: performance.now(), well: false }
    try {
      this.#known = createLocalJWKSet(await fetch())
      this.#fetchedAt = performance.now()
      this.#asked.well = true
    } catch (error) {
      log.warn({ err: error }, 'the identity provider’s keys could not be fetched')
    }
    return this.#asked.well
  }
}
