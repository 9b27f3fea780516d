// A replica that does not lead accepts no wake. It writes down that one is wanted; the leader requests it and says by which
// operation.
import { setTimeout as sleep } from 'node:timers/promises'
import { newId, Refusal, type RefusalCode, refusals, refuse } from '@dormouse/contract'
import { eachApart, type Log } from '@dormouse/process'
import { type Note, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { Desktops, TransitionRequest } from '../desktops/service.ts'
import type { Use } from '../guest/awaken.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { type OperationRow, read } from '../operations/store.ts'
import { wholeOrg } from '../principals/scope.ts'
import * as store from './store.ts'

export interface WantedWakesOptions {
  pool: Pool
  leadership: Leadership
  desktops: Pick<Desktops, 'request'>
  log: Log
}

const lookEveryMs = 100
/** Longer than a change of leader takes. */
const longestMs = 15_000
const answeredAtOnce = 32
const readAtOnce = 200

/** As stored: a refusal of the leader. */
interface Refused {
  code: RefusalCode
  detail: string
  extra: Refusal['extra']
}

/** What a call asks for: a wake in progress is joined, and none begins if the desktop is awake. */
export const ensured = (requestId: string): TransitionRequest => ({
  ...{ key: null, fingerprint: Buffer.alloc(0), requestId, expectedGeneration: null },
  ...{ discardMemory: false, ensure: true },
})

export class WantedWakes {
  readonly #options: WantedWakesOptions

  constructor(options: WantedWakesOptions) {
    this.#options = options
  }

  /** Has the leader wake the desktop; returns the operation, or throws the leader's refusal. */
  async want({ caller, desktopId, requestId }: Use): Promise<OperationRow> {
    const { pool } = this.#options
    const id = newId()
    await retryWhileUnavailable(() => store.insert(pool, { id, desktopId, orgId: caller.orgId, requestId }))
    try {
      const { operationId, refusal } = await this.#answerTo(id)
      if (refusal) throw refusalOf(refusal as Refused)
      const operation = operationId && (await retryWhileUnavailable(() => read(pool, operationId)))
      return operation || refuse('not_leader')
    } finally {
      await store.remove(pool, id).catch((err: unknown) => this.#options.log.debug({ err }, 'it is removed later'))
    }
  }

  async #answerTo(id: string): Promise<store.Answer> {
    const until = performance.now() + longestMs
    while (performance.now() < until) {
      await sleep(lookEveryMs)
      const answer = (await retryWhileUnavailable(() => store.answers(this.#options.pool, [id]))).get(id)
      if (answer) return answer
    }
    return refuse('not_leader')
  }

  /** By the leader: requests what is wanted. To be called a few times a second. */
  async look(): Promise<void> {
    const { pool, log } = this.#options
    const wanted = await store.open(pool, readAtOnce)
    const failed = (err: unknown) => log.debug({ err }, 'a wake that another replica wants is requested again')
    await eachApart(wanted, { atOnce: answeredAtOnce, failed }, (one) => this.#request(one))
  }

  async #request({ id, orgId, desktopId, requestId }: store.WantedWake): Promise<void> {
    const { leadership, desktops } = this.#options
    const note: Note = (tx, _desktop, details) =>
      store.answer(tx, id, { operationId: String(details?.operation_id), refusal: null })
    try {
      await desktops.request(wholeOrg(orgId), desktopId, 'wake', ensured(requestId), note)
    } catch (error) {
      if (!(error instanceof Refusal) || refusals[error.code].status === 503) throw error
      const { code, detail, extra } = error
      const refusal = { code, detail, extra } satisfies Refused
      await leadership.transactionAtOnce((tx) => store.answer(tx, id, { operationId: null, refusal }))
    }
  }
}

const refusalOf = ({ code, detail, extra }: Refused): Refusal => new Refusal(code, detail, extra)
