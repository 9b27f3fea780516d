// Streams a JSON response with one long list, page by page, no faster than the client reads. A failure after the first
// byte aborts the connection, so that no client mistakes a part for the whole.
import { Readable } from 'node:stream'
import { longReadMs, type Pages } from '../db/long-reads.ts'

export interface JsonListOptions<R> {
  /** Everything before the list's first item, such as `{"desktops":[`. */
  head: string
  pages: Pages<R>
  toJson(row: R): object
  /** Everything after the last one. */
  tail(): string
}

export class JsonList<R> extends Readable {
  readonly #options: JsonListOptions<R>
  readonly #timer: NodeJS.Timeout
  #before: string

  constructor(options: JsonListOptions<R>) {
    super()
    this.#options = options
    this.#before = options.head
    this.#timer = setTimeout(
      () => this.destroy(new Error('timed out streaming a long list to a slow client')),
      longReadMs,
    )
  }

  override _read(): void {
    this.#fill().catch((error: Error) => this.destroy(error))
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearTimeout(this.#timer)
    this.#options.pages.close()
    callback(error)
  }

  async #fill(): Promise<void> {
    const { pages, toJson, tail, head } = this.#options
    const page = await pages.next()
    if (this.destroyed) return
    if (page) {
      this.push(this.#before + JSON.stringify(page.map(toJson)).slice(1, -1))
      this.#before = ','
      return
    }
    this.push((this.#before === head ? head : '') + tail())
    this.push(null)
  }
}
