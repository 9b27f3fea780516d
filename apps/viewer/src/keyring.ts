// What this tab may open the screen with: first the link's token, then the tickets it is given. Once each.
const place = (path: string) => `dormouse ${path}`

export class Keyring {
  readonly #path: string
  readonly #storage: Storage

  /** Takes the token out of the address, so that no history and no shared screen shows it. */
  constructor(location: Location, history: History, storage: Storage) {
    this.#path = location.pathname
    this.#storage = storage
    const token = location.hash.slice(1)
    if (token === '') return
    this.keep(token)
    history.replaceState(null, '', location.pathname)
  }

  get key(): string | undefined {
    return this.#storage.getItem(place(this.#path)) ?? undefined
  }

  /** A reload of this tab finds it again; no other tab does. */
  keep(key: string): void {
    this.#storage.setItem(place(this.#path), key)
  }

  drop(): void {
    this.#storage.removeItem(place(this.#path))
  }
}
