// Sends inputs, several at a time, judges each and counts. Knows neither who asked nor how it is shown.
import { createClient } from '@dormouse/client'
import { AnswerChecker, type OpenApi } from '../openapi.ts'
import { Desktops } from './desktops.ts'
import { Dice } from './dice.ts'
import { type Input, inputOf, type Stock } from './inputs.ts'
import { faultsOf } from './judge.ts'
import { routesOf } from './routes.ts'
import { exchange, type Outcome } from './wire.ts'

export interface Target {
  url: string
  key: string
  operatorKey?: string | undefined
}

export interface Fault {
  at: number
  input: Input
  why: string[]
}

export interface Tally {
  inputs: number
  /** Answers by status; `none` counts inputs that got none, as half a request should. */
  byStatus: Record<string, number>
  byKind: Record<string, number>
  faults: Fault[]
}

const atOnce = 24
/** Inputs destroy the desktops they find; after so many there are new ones. */
const renewEvery = 250

export class Fuzz {
  readonly tally: Tally = { inputs: 0, byStatus: {}, byKind: {}, faults: [] }
  readonly #target: Target
  readonly #seed: number
  readonly #stock: Stock
  readonly #checker: AnswerChecker
  readonly #desktops: Desktops
  #next = 0

  private constructor(target: Target, seed: number, document: OpenApi) {
    this.#target = target
    this.#seed = seed
    this.#stock = { routes: routesOf(document), key: target.key, operatorKey: target.operatorKey, ids: [] }
    this.#checker = new AnswerChecker(document)
    this.#desktops = new Desktops(target.url, target.key)
  }

  /** Reads the service's document and makes a few desktops to be misused. */
  static async begin(target: Target, seed: number): Promise<Fuzz> {
    const answer = await fetch(`${target.url}/v1/openapi.json`)
    const fuzz = new Fuzz(target, seed, (await answer.json()) as OpenApi)
    fuzz.#stock.ids = await fuzz.#desktops.some()
    return fuzz
  }

  /** Tries inputs until so many are tried, or until the signal says enough. */
  async run(count: number, enough: AbortSignal = new AbortController().signal): Promise<void> {
    const last = this.#next + count
    const work = async () => {
      while (this.#next < last && !enough.aborted) {
        const at = this.#next++
        if (at % renewEvery === renewEvery - 1) this.#stock.ids = await this.#desktops.some()
        await this.try(at)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
  }

  /** Tries one input; its number makes it what it is. */
  async try(at: number): Promise<{ input: Input; outcome: Outcome; why: string[] }> {
    const input = inputOf(this.#stock, new Dice(this.#seed, at))
    const { hostname: host, port } = new URL(this.#target.url)
    const outcome = await exchange({ host, port: Number(port || 80) }, input)
    const why = faultsOf(input, outcome, this.#checker)
    this.#count(input, outcome)
    if (why.length > 0) this.tally.faults.push({ at, input, why })
    return { input, outcome, why }
  }

  /** Whether a plain request is still answered as ever; in sentences what is wrong. */
  async alive(): Promise<string[]> {
    const client = createClient({ baseUrl: this.#target.url, apiKey: this.#target.key })
    try {
      const { id } = await client.createDesktop({ tier: 'small' })
      await client.destroyDesktop(id, {}, { wait: true })
      return []
    } catch (error) {
      return [`a plain request fails: ${error}`]
    }
  }

  /** Destroys whatever desktops this run made; answers in sentences which are left. */
  end(): Promise<string[]> {
    return this.#desktops.end()
  }

  #count({ kind }: Input, { answers }: Outcome): void {
    const { tally } = this
    tally.inputs++
    add(tally.byKind, kind)
    for (const answer of answers) {
      add(tally.byStatus, String(answer.status))
      this.#desktops.note(answer)
    }
    if (answers.length === 0) add(tally.byStatus, 'none')
  }
}

function add(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1
}
