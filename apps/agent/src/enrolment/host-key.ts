// The key with which this host proves itself, and how another one replaces it. The control plane stores the new public half
// between two links, so either key may be the valid one until a link was accepted.
import type { HostPublicKey } from '@dormouse/contract'
import type { Handshake } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import { type Identity, loadIdentity, newKey, publicKeyOf, saveIdentity } from './identity.ts'
import { prove } from './prove.ts'

export interface HostKeyOptions {
  stateDir: string
  identity: Identity
  /** The new key is the only one now: links that were opened with the old one are to be opened again. */
  replaced(): void
  log: Log
}

export class HostKey {
  readonly #options: HostKeyOptions
  #identity: Identity
  #renewing: Promise<Identity> | undefined

  constructor(options: HostKeyOptions) {
    this.#options = options
    this.#identity = options.identity
  }

  /** Makes a key that is to replace the present one, and returns its public half; the same one until it is used. */
  async renew(): Promise<HostPublicKey> {
    this.#renewing ??= this.#store((stored) => ({ ...stored, nextKey: stored.nextKey ?? newKey() })).finally(() => {
      this.#renewing = undefined
    })
    const { nextKey } = await this.#renewing
    return publicKeyOf({ key: nextKey! })
  }

  /** Proves this host. With two keys, each attempt takes one by chance: a refused one is followed by others. */
  async prove(hands: Handshake): Promise<void> {
    const { nextKey } = this.#identity
    if (!nextKey || Math.random() < 0.5) return prove(hands, this.#identity)
    await prove(hands, { ...this.#identity, key: nextKey })
    // Another link may have used it first.
    if (this.#identity.nextKey?.x !== nextKey.x) return
    await this.#store(({ nextKey: _used, ...stored }) => ({ ...stored, key: nextKey }))
    this.#options.log.info('this host has a new key')
    this.#options.replaced()
  }

  /** The file also says what settings may override, so it is read again. */
  async #store(change: (stored: Identity) => Identity): Promise<Identity> {
    const { stateDir } = this.#options
    const changed = change((await loadIdentity(stateDir)) ?? this.#options.identity)
    await saveIdentity(stateDir, changed)
    this.#identity = changed
    return changed
  }
}
