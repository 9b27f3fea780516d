// Customers who never stop: each has a desktop that it wakes, uses and puts to sleep, again and again. What it is refused, it
// sends again if the refusal allows that; anything else is a failure.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, ConnectionError, createClient, DormouseError } from '@dormouse/client'
import type { ChangeDesktopBody, DesktopJson, OperationJson } from '@dormouse/contract'
import { plainFetch } from '../openapi.ts'

const pauseMs = 50

export interface Customer {
  desktopId: string
  /** How many rounds it has ended: woken, used, put to sleep. */
  rounds: number
}

export class Load {
  readonly customers: Customer[] = []
  /** What was refused and then sent again, by code. */
  readonly refused = new Map<string, number>()
  readonly #clients: Client[]
  readonly #end = new AbortController()
  readonly #work: Promise<void>[] = []
  #failed: Error | undefined
  #next = 0

  constructor(urls: string[], apiKey: string) {
    // Answers are compared with the first document of a URL, and the releases behind it change.
    this.#clients = urls.map((baseUrl) => createClient({ baseUrl, apiKey, retries: 0, fetch: plainFetch }))
  }

  async add(): Promise<void> {
    const { id } = await this.#ask((client, idempotencyKey) =>
      client.createDesktop({ tier: 'small' }, { idempotencyKey }),
    )
    const customer = { desktopId: id, rounds: 0 }
    this.customers.push(customer)
    this.#work.push(
      this.#live(customer).catch((error: Error) => {
        this.#failed ??= error
      }),
    )
  }

  /** Another desktop, which no customer uses. */
  async desktop(): Promise<string> {
    const made = await this.#ask((client, idempotencyKey) =>
      client.createDesktop({ tier: 'small' }, { idempotencyKey }),
    )
    await this.sleepAfter(made.id, {})
    return made.id
  }

  change(desktopId: string, body: ChangeDesktopBody): Promise<DesktopJson> {
    return this.#ask((client) => client.changeDesktop(desktopId, body))
  }

  /** Wakes it in that way, and puts it to sleep again. Returns it as it is then, and what the wake has said. */
  async sleepAfter(desktopId: string, wake: { discard_memory?: boolean }) {
    const { result } = await this.#settle('wakeDesktop', desktopId, wake)
    await this.#settle('hibernateDesktop', desktopId)
    return { result, desktop: await this.#ask((client) => client.getDesktop(desktopId)) }
  }

  /** How many rounds each has ended. Throws what has failed. */
  get rounds(): number[] {
    if (this.#failed) throw this.#failed
    return this.customers.map(({ rounds }) => rounds)
  }

  /** Each ends its round. */
  async stop(): Promise<void> {
    this.#end.abort()
    await Promise.all(this.#work)
    if (this.#failed) throw this.#failed
  }

  /** The rounds that a desktop has on its disk and in its memory. */
  async recall({ desktopId }: Customer): Promise<{ disk: string; memory: string }> {
    await this.#settle('wakeDesktop', desktopId)
    const read = async (path: string) => (await this.#exec(desktopId, `cat ${path}`)).trim()
    return { disk: await read('/srv/rounds'), memory: await read('/run/rounds') }
  }

  async #live(customer: Customer): Promise<void> {
    while (!this.#end.signal.aborted) {
      const round = customer.rounds + 1
      await this.#settle('wakeDesktop', customer.desktopId)
      await this.#exec(customer.desktopId, `echo ${round} >> /srv/rounds; echo ${round} >> /run/rounds`)
      await this.#settle('hibernateDesktop', customer.desktopId)
      customer.rounds = round
    }
  }

  async #exec(desktopId: string, command: string): Promise<string> {
    const {
      exit_code: code,
      stdout,
      stderr,
    } = await this.#ask((client, idempotencyKey) => client.exec(desktopId, { command }, { idempotencyKey }))
    if (code !== 0) throw new Error(`${command} has ended with ${code}: ${stderr}`)
    return stdout
  }

  async #settle(
    kind: 'wakeDesktop' | 'hibernateDesktop',
    desktopId: string,
    body: object = {},
  ): Promise<OperationJson> {
    let operation = await this.#ask((client, idempotencyKey) => client[kind](desktopId, body, { idempotencyKey }))
    while (!operation.settled_at) {
      await sleep(pauseMs)
      operation = await this.#ask((client): Promise<OperationJson> => client.getOperation(operation.id))
    }
    if (operation.state !== 'succeeded') throw new Error(`${kind} has failed: ${JSON.stringify(operation)}`)
    return operation
  }

  async #ask<T>(call: (client: Client, idempotencyKey: string) => Promise<T>): Promise<T> {
    const key = randomUUID()
    for (;;) {
      const client = this.#clients[this.#next++ % this.#clients.length]!
      try {
        return await call(client, key)
      } catch (error) {
        if (!maySendAgain(error)) throw error
        const code = error.code ?? error.name
        this.refused.set(code, (this.refused.get(code) ?? 0) + 1)
        await sleep(pauseMs)
      }
    }
  }
}

/** As `Retry-After` says it; and a command that lasts is asked for again with its key. */
const maySendAgain = (error: unknown): error is DormouseError =>
  error instanceof ConnectionError ||
  (error instanceof DormouseError && (error.retryAfterMs !== undefined || error.code === 'exec_interrupted'))
