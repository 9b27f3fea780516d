// What the rows share: the two organisations, the desktops made for this run, and every exchange there was. Touches no
// desktop that it has not made, and destroys those it has.
import { randomUUID } from 'node:crypto'
import type { ApiAnswer, ApiWish } from '../integration/parts/api.ts'
import { AnswerChecker, type Exchange, type OpenApi } from '../openapi.ts'
import type { Answered } from '../secrets.ts'
import { ask } from './ask.ts'
import { status } from './assertions.ts'

export interface Place {
  url: string
  key: string
  /** A key of another organisation. */
  otherKey: string
  /** Ends all requests that are still under way. */
  signal?: AbortSignal
}

interface Desktop {
  id: string
  generation: number
  state: string
}

interface FailedWake {
  wake: { id: string; desktop_id: string }
  again(): Promise<ApiAnswer>
}

export class Context {
  readonly key: string
  readonly otherKey: string
  readonly #url: string
  readonly #signal: AbortSignal
  /** Desktops of this run, and the key that made each. */
  readonly #made = new Map<string, string>()
  readonly #exchanges: (Answered & Exchange)[] = []
  #shared: string | undefined
  #idle: string | undefined
  #foreign: string | undefined
  #failing: Promise<FailedWake> | undefined

  constructor({ url, key, otherKey, signal }: Place) {
    this.#url = new URL(url).origin
    this.key = key
    this.otherKey = otherKey
    this.#signal = signal ?? new AbortController().signal
  }

  /** Sends a request as the first organisation, unless `key` says otherwise; null sends no credential. */
  async ask(method: string, path: string, wish: ApiWish = {}): Promise<ApiAnswer> {
    const key = wish.key === undefined ? this.key : wish.key
    const answer = await ask(this.#url + path, method, { ...wish, key }, this.#signal)
    if (method === 'POST' && path === '/v1/desktops' && answer.status === 201) this.#made.set(answer.json.id, key!)
    this.#exchanges.push({ method, path, ...answer })
    return answer
  }

  get = (path: string, wish?: ApiWish): Promise<ApiAnswer> => this.ask('GET', path, wish)

  post = (path: string, body?: unknown, headers?: ApiWish['headers']): Promise<ApiAnswer> =>
    this.ask('POST', path, { body, ...(headers && { headers }) })

  /** A key for Idempotency-Key that no other run has used. */
  newKey(): Record<string, string> {
    return { 'idempotency-key': `conformance ${randomUUID()}` }
  }

  /** A desktop that is new. */
  async fresh(more: object = {}, key = this.key): Promise<Desktop> {
    const body = { tier: 'small', ...more }
    return status('create', await this.ask('POST', '/v1/desktops', { body, key }), 201).json
  }

  async see(id: string): Promise<Desktop> {
    return status('get', await this.get(`/v1/desktops/${id}`), 200).json
  }

  /** The id of a desktop that nobody ever wakes. */
  async idle(): Promise<string> {
    this.#idle ??= (await this.fresh()).id
    return this.#idle
  }

  /** The id of a desktop of the other organisation. */
  async foreign(): Promise<string> {
    this.#foreign ??= (await this.fresh({}, this.otherKey)).id
    return this.#foreign
  }

  /** A wake that has failed, because its desktop was destroyed meanwhile; `again` repeats its request and waits. */
  async failing(): Promise<FailedWake> {
    this.#failing ??= this.#failedWake()
    return this.#failing
  }

  async #failedWake(): Promise<FailedWake> {
    // A quick host may be done before the destroy comes.
    for (let tries = 0; tries < 10; tries++) {
      const [{ id }, headers] = [await this.fresh(), this.newKey()]
      const path = `/v1/desktops/${id}/wake`
      const { json: wake } = status('wake', await this.post(path, undefined, headers), 202)
      await this.settled(id, 'destroy')
      const { state } = status('operation', await this.get(`/v1/operations/${wake.id}`), 200).json
      if (state === 'failed') return { wake, again: () => this.post(`${path}?wait=true`, undefined, headers) }
    }
    throw new Error('no wake failed because its desktop was destroyed')
  }

  /** The one desktop that rows put to sleep and wake, awake. */
  async awake(): Promise<string> {
    this.#shared ??= (await this.fresh()).id
    if ((await this.see(this.#shared)).state !== 'awake') await this.settled(this.#shared, 'wake')
    return this.#shared
  }

  /** The same desktop, asleep. */
  async asleep(): Promise<string> {
    const id = await this.awake()
    await this.settled(id, 'hibernate')
    return id
  }

  /** Asks for a transition and waits for its success. */
  async settled(id: string, kind: 'wake' | 'hibernate' | 'destroy'): Promise<ApiAnswer> {
    const answer = status(`${kind} with wait`, await this.post(`/v1/desktops/${id}/${kind}?wait=true`), 200)
    if (answer.json.state !== 'succeeded') throw new Error(`${kind} did not settle in time: ${answer.text}`)
    return answer
  }

  /** Every answer that has come. */
  get answers(): readonly Answered[] {
    return this.#exchanges
  }

  /** How the answers of this run differ from the document. A proxy may add headers of its own. */
  complaints(document: OpenApi): string[] {
    const checker = new AnswerChecker(document)
    const all = this.#exchanges.flatMap((exchange) => checker.complaints(exchange))
    return [...new Set(all.filter((one) => !/ is not documented$/.test(one) || !one.includes(': the header ')))]
  }

  /** Destroys every desktop of this run; answers in sentences what could not be destroyed. */
  async close(): Promise<string[]> {
    const left = await Promise.all([...this.#made].map(([id, key]) => this.#destroy(id, key)))
    return left.filter((one) => one !== undefined)
  }

  /** Outlives the run's deadline: what was made is taken away in any case. */
  async #destroy(id: string, key: string): Promise<string | undefined> {
    const signal = AbortSignal.timeout(120_000)
    const url = `${this.#url}/v1/desktops/${id}`
    try {
      const answer = await ask(`${url}/destroy?wait=true`, 'POST', { key }, signal)
      if (answer.status === 200) return undefined
      const seen = await ask(url, 'GET', { key }, signal)
      return seen.json?.state === 'destroyed' ? undefined : `desktop ${id} is left: ${answer.status} ${answer.text}`
    } catch (error) {
      return `desktop ${id} is left: ${String(error)}`
    }
  }
}
