// Batches of input to awake desktops. A batch borrows the claim `control` while it runs. A batch with an Idempotency-Key is
// stored before it is sent, so that it is done at most once. Any replica with a link to the host can serve it.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type CommandPayload,
  type InputBody,
  type InputJson,
  inputMaxMs,
  inputPaceMs,
  newId,
  type PictureSpec,
  pictureMimeType,
  Refusal,
  refusals,
  refuse,
  settleMaxMs,
  settleQuietMs,
} from '@dormouse/contract'
import { CallFailed } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import * as activity from '../activity/store.ts'
import type { Links } from '../agents/links.ts'
import * as audit from '../audit/store.ts'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops, Replay } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'
import { type Borrowed, borrow, giveBack } from '../streams/borrowing.ts'
import { refuseHeld } from './human.ts'
import { asGuestRefusal, type Looks, noWait, type Target } from './looks.ts'
import { outcomeOf, refuseInput, unknownOutcome } from './outcomes.ts'
import * as store from './store.ts'
import { BatchWatch } from './watch.ts'

export interface InputsOptions {
  pool: Pool
  desktops: Desktops
  links: Links
  looks: Looks
  /** Another client's socket may have to close. */
  onTakenOver(): void
  log: Log
}

export interface InputRequest {
  key: string | null
  fingerprint: Buffer
  requestId: string
}

interface Answer {
  json: InputJson
  replay: Replay
}

/** A batch that was accepted. */
interface Batch extends Target {
  id: string
  holder: string
  key: string | null
  requestId: string
  borrowed: Borrowed
}

/** For the host to wait for other batches of the desktop, to open the screen, and to answer. */
const marginMs = 20_000
const lookEveryMs = 200

export class Inputs {
  readonly #options: InputsOptions
  readonly #watch: BatchWatch

  constructor(options: InputsOptions) {
    this.#options = options
    this.#watch = new BatchWatch(options.pool, options.log)
  }

  /** Claims may have changed hands: stops the batches of this replica that have lost theirs. */
  checkClaims(): void {
    void this.#watch.check()
  }

  /** Performs the batch, or returns what became of the one with this key. */
  async perform(caller: Customer, desktopId: string, body: InputBody, request: InputRequest): Promise<Answer> {
    const { pool, desktops, links } = this.#options
    const holder =
      caller.subject ?? refuse('forbidden', 'this route needs a token with a `sub` claim; get one, or send an API key')
    const desktop = await desktops.get(caller, desktopId)
    const { key } = request
    const earlier = key !== null && (await retryWhileUnavailable(() => store.find(pool, { desktopId, key })))
    if (earlier) return this.#replay({ desktopId, key }, request.fingerprint)
    const { expected_generation: expected } = body
    if (expected != null && expected !== desktop.generation)
      refuse('stale_generation', refusals.stale_generation.detail({ expected, current: desktop.generation }))
    const target = { desktopId, orgId: caller.orgId, ...requireAwake(desktop) }
    if (!links.takesCommands(target.hostId)) refuse('host_unreachable')
    const batch = await this.#accept(caller, holder, target, body, request)
    if (!batch) return this.#replay({ desktopId, key: key! }, request.fingerprint)
    return { json: await this.#run(batch, body), replay: 'no' }
  }

  /** Writes the batch down and borrows the claim, in one transaction; undefined if the key was used meanwhile. */
  async #accept(
    { goodUntil }: Customer,
    holder: string,
    target: Target,
    body: InputBody,
    { key, fingerprint, requestId }: InputRequest,
  ): Promise<Batch | undefined> {
    const { pool, onTakenOver } = this.#options
    const { desktopId, generation } = target
    const id = newId()
    const borrowed = await transaction(pool, async (tx) => {
      // The claim's row is locked first: two requests with one key wait for each other there.
      const borrowed = await borrow(tx, {
        ...{ desktopId, holder, generation, takeover: body.takeover ?? false },
        goodForMs: goodUntil === null ? null : Math.round(goodUntil - Date.now()),
        forMs: durationOf(body),
        refuseHeld: (held) => refuseHeld(tx, desktopId, held),
      })
      const isFirst =
        key === null || (await store.insert(tx, { desktopId, key }, { id, fingerprint, requestedBy: holder }))
      if (!isFirst) throw new KeyUsed()
      await activity.note(tx, [{ desktopId, class: 'input', ageMs: 0 }])
      return borrowed
    }).catch((error: unknown) => {
      if (error instanceof KeyUsed) return undefined
      throw error
    })
    if (borrowed?.lost) onTakenOver()
    return borrowed && { ...target, id, holder, key, requestId, borrowed }
  }

  async #run(batch: Batch, body: InputBody): Promise<InputJson> {
    const { pool, log } = this.#options
    try {
      const json = await this.#send(batch, body)
      await this.#settle(batch, body, json)
      const picture = pictureOf(body)
      return json.outcome !== 'unknown' && picture ? await this.#withPicture(batch, picture, json) : json
    } finally {
      await giveBack(pool, batch.borrowed).catch((err) => log.warn({ err }, 'a borrowed claim was not given back'))
    }
  }

  /** A refusal means that nothing was done. If the answer is lost, it is not known what was. */
  async #send(batch: Batch, body: InputBody): Promise<InputJson> {
    const { pool, links } = this.#options
    const { id, desktopId, hostId, borrowed, key, requestId } = batch
    const interrupt = () =>
      void links.command(hostId, 'input.interrupt', { desktopId, batchId: id }).catch(() => undefined)
    using _watched = this.#watch.add({ id, desktopId, holdId: borrowed.holdId, isKeyed: key !== null, interrupt })
    try {
      const timeoutMs = durationOf(body)
      const result = await links.command(hostId, 'input.perform', commandOf(batch, body), { timeoutMs, requestId })
      if ('refused' in result) refuseInput(result.refused)
      return outcomeOf(result)
    } catch (error) {
      if (isUnknown(error)) return unknownOutcome('the connection to the desktop’s host was lost')
      if (key !== null) await retryWhileUnavailable(() => store.remove(pool, id, { desktopId, key }))
      throw asGuestRefusal(error)
    }
  }

  /** Typed text is not logged: the entry has who, how many actions and what became of them. */
  async #settle({ id, desktopId, key, holder }: Batch, { actions }: InputBody, json: InputJson): Promise<void> {
    const { pool, log } = this.#options
    const { outcome, performed } = json
    const entry = { actor: holder, action: 'input.batch', subject: desktopId }
    const write = () =>
      transaction(pool, async (tx) => {
        if (key !== null) await store.settle(tx, id, { desktopId, key }, json)
        await audit.recordOfCustomer(tx, { ...entry, details: { actions: actions.length, performed, outcome } })
        await activity.note(tx, [{ desktopId, class: 'input', ageMs: 0 }])
      })
    // Without it, a repeated request does not find the batch; the events were sent anyway.
    await retryWhileUnavailable(write).catch((err) => log.warn({ err }, 'the outcome of a batch was not written'))
  }

  async #withPicture(batch: Batch, spec: PictureSpec, json: InputJson): Promise<InputJson> {
    try {
      const { picture } = await this.#options.looks.picture(batch, noWait, spec, { requestId: batch.requestId })
      return {
        ...json,
        screenshot: { mime_type: pictureMimeType[spec.format ?? 'png'], data: picture.toString('base64') },
      }
    } catch (err) {
      // The events were sent: the outcome is worth more than the picture.
      this.#options.log.info({ err, desktop: batch.desktopId }, 'a batch has no picture')
      return json
    }
  }

  /** Waits for the batch while its replica is alive. */
  async #replay(of: { desktopId: string; key: string }, fingerprint: Buffer): Promise<Answer> {
    const { pool } = this.#options
    for (;;) {
      const row = await retryWhileUnavailable(() => store.find(pool, of))
      // Refused meanwhile: nothing was done.
      if (!row) return refuse('guest_unavailable', 'the batch with this key was refused; send the request again')
      const replay = row.fingerprint.equals(fingerprint) ? 'same' : 'mismatch'
      if (row.state !== 'running')
        return { json: row.result ?? unknownOutcome('the service was interrupted in the middle'), replay }
      if (!row.isAlive) await store.giveUp(pool, of)
      else await sleep(lookEveryMs)
    }
  }
}

class KeyUsed extends Error {}

/** Whether an error leaves open what the host has done. */
const isUnknown = (error: unknown): boolean =>
  error instanceof CallFailed || !(error instanceof Refusal) || error.code === 'host_unreachable'

/** The longest that the batch may take, with its waits. */
const durationOf = ({ settle }: InputBody): number =>
  inputMaxMs + (settle ? (settle.max_ms ?? settleMaxMs) : 0) + marginMs

/** An action `screenshot` is always the last one. */
const pictureOf = ({ screenshot, actions }: InputBody): PictureSpec | undefined =>
  screenshot ?? (actions.at(-1)?.type === 'screenshot' ? {} : undefined)

function commandOf({ id, desktopId, generation, borrowed }: Batch, body: InputBody): CommandPayload<'input.perform'> {
  const { actions, space, expected_screen, pace_ms, settle } = body
  return {
    ...{ desktopId, generation, batchId: id, actions, space: space ?? null },
    expectedScreen: expected_screen ?? null,
    paceMs: pace_ms ?? inputPaceMs,
    settle: settle ? { quietMs: settle.quiet_ms ?? settleQuietMs, maxMs: settle.max_ms ?? settleMaxMs } : null,
    region: pictureOf(body)?.region,
    supersedes: borrowed.isHandedOver,
  }
}
