// The desktops of a fuzz run: a few to be misused, and whatever else its inputs happened to make. All end with the run.
import { type Client, createClient, type DormouseError } from '@dormouse/client'
import type { Answer } from './wire.ts'

export class Desktops {
  readonly #client: Client
  readonly #made = new Set<string>()

  constructor(url: string, key: string) {
    this.#client = createClient({ baseUrl: url, apiKey: key })
  }

  /** Three new ones: one that was never awake, one that is awake if a host takes it, one that is on its way. */
  async some(): Promise<string[]> {
    await this.end()
    const made = await Promise.all([1, 2, 3].map(() => this.#client.createDesktop({ tier: 'small' })))
    const ids = made.map(({ id }) => id)
    for (const id of ids) this.#made.add(id)
    // An input may have been quicker, and every state is good to be misused.
    await this.#client.wakeDesktop(ids[1]!, {}, { wait: true }).catch((error: DormouseError) => error)
    await this.#client.wakeDesktop(ids[2]!).catch((error: DormouseError) => error)
    return ids
  }

  /** Notes a desktop that an input made. */
  note({ status, text }: Answer): void {
    const id = status === 201 && /^\{"id":"([0-9a-f-]{36})","org_id":"[^"]*","tier"/.exec(text)?.[1]
    if (id) this.#made.add(id)
  }

  /** Destroys all of them; answers in sentences which were not. */
  async end(): Promise<string[]> {
    const left = await Promise.all([...this.#made].map((id) => this.#destroy(id)))
    this.#made.clear()
    return left.filter((one) => one !== undefined)
  }

  async #destroy(id: string): Promise<string | undefined> {
    const error = await this.#client.destroyDesktop(id, {}, { wait: true }).catch((failed: Error) => failed)
    if (!(error instanceof Error)) return undefined
    const { state } = await this.#client.getDesktop(id)
    return state.startsWith('destroy') ? undefined : `desktop ${id} is left: ${error.message}`
  }
}
