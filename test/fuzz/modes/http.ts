// Sends malformed HTTP and JSON, with and without a credential, to every route, over raw connections. Any 500, any answer that
// is no problem with a request id, any connection left open is a fault.
import { createClient } from '@dormouse/client'
import { AnswerChecker, type OpenApi } from '../../openapi.ts'
import type { Dice } from '../dice.ts'
import { Desktops } from '../http/desktops.ts'
import { inputOf, type Stock } from '../http/inputs.ts'
import { faultsOf } from '../http/judge.ts'
import { routesOf } from '../http/routes.ts'
import { exchange, type Outcome } from '../http/wire.ts'
import type { Mode, Subject, Trial } from '../mode.ts'
import { Service } from '../service.ts'

export const http: Mode = {
  name: 'http',
  about: 'malformed HTTP and JSON on every route, over raw connections',
  remote: true,
  begin: async ({ target, say }) => HttpSubject.begin(await Service.at(target, say)),
}

/** Inputs destroy the desktops they find; after this many there are new ones. */
const renewEvery = 250

export class HttpSubject implements Subject {
  readonly atOnce = 24
  readonly #service: Service
  readonly #stock: Stock
  readonly #checker: AnswerChecker
  readonly #desktops: Desktops
  #tried = 0

  private constructor(service: Service, document: OpenApi) {
    const { key, operatorKey, url } = service.target
    this.#service = service
    this.#stock = { routes: routesOf(document), key, operatorKey, ids: [] }
    this.#checker = new AnswerChecker(document)
    this.#desktops = new Desktops(url, key)
  }

  /** Reads the service's document and makes a few desktops to be misused. */
  static async begin(service: Service): Promise<HttpSubject> {
    const answer = await fetch(`${service.target.url}/v1/openapi.json`)
    const subject = new HttpSubject(service, (await answer.json()) as OpenApi)
    subject.#stock.ids = await subject.#desktops.some()
    return subject
  }

  get pid(): number | undefined {
    return this.#service.pid
  }

  async try(dice: Dice): Promise<Trial> {
    if (++this.#tried % renewEvery === 0) this.#stock.ids = await this.#desktops.some()
    const input = inputOf(this.#stock, dice)
    const outcome = await exchange(this.#address, input)
    for (const answer of outcome.answers) this.#desktops.note(answer)
    const bytes = input.bytes.toString('latin1').replaceAll(/svc_(sk|op)_\w{20,}/g, 'svc_$1_…')
    const why = faultsOf(input, outcome, this.#checker)
    return { kind: input.kind, came: wordsOf(outcome), why, shown: { ...input, bytes, outcome } }
  }

  /** Whether a plain request is still answered as ever, and nothing that the run made is left. */
  async verdict(): Promise<string[]> {
    return [...(await this.#alive()), ...(await this.#desktops.end()), ...this.#service.verdict()]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
  }

  get #address() {
    const { hostname: host, port } = new URL(this.#service.target.url)
    return { host, port: Number(port || 80) }
  }

  async #alive(): Promise<string[]> {
    const { url, key } = this.#service.target
    const client = createClient({ baseUrl: url, apiKey: key })
    try {
      const { id } = await client.createDesktop({ tier: 'small' })
      await client.destroyDesktop(id, {}, { wait: true })
      return []
    } catch (error) {
      return [`a plain request fails: ${error}`]
    }
  }
}

/** Answers by status; `none` counts inputs that got none, as half a request should. */
const wordsOf = ({ answers }: Outcome): string[] =>
  answers.length === 0 ? ['none'] : answers.map(({ status }) => String(status))
