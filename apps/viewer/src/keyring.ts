// What this tab can open the screen with: first the link's token, then the tickets it receives. Each works once.
/** A token or a ticket: 256 bits in base64url. The service has no screen for anything else. */
const form = /^[\w-]{43}$/

const place = (path: string) => `dormouse ${path}`

export class Keyring {
  readonly #path: string
  readonly #storage: Storage

  /**
   * Removes the token from the address, so that neither the history nor a shared screen shows it. A link that was cut or changed on
   * its way opens nothing, also not what an earlier one has opened.
   */
  constructor(location: Location, history: History, storage: Storage) {
    this.#path = location.pathname
    this.#storage = storage
    const token = location.hash.slice(1)
    if (token === '') return
    if (form.test(token)) this.keep(token)
    else this.drop()
    history.replaceState(null, '', location.pathname)
  }

  get key(): string | undefined {
    return this.#storage.getItem(place(this.#path)) ?? undefined
  }

  /** Survives a reload of this tab; no other tab sees it. */
  keep(key: string): void {
    this.#storage.setItem(place(this.#path), key)
  }

  drop(): void {
    this.#storage.removeItem(place(this.#path))
  }
}
