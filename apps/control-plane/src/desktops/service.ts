// Creates, lists and reads desktops, and accepts requests for transitions. Knows neither HTTP nor hosts.
import {
  type AdminOperationJson,
  type ChangeDesktopBody,
  type CreateDesktopBody,
  type DesktopJson,
  type DesktopState,
  type IdleCondition,
  type Labels,
  newId,
  type OperationJson,
  type OperationRequester,
  Refusal,
  type RefusalCode,
  type RequestKind,
  refusals,
  refuse,
  refuseField,
  refuseNotFound,
  type Tier,
} from '@dormouse/contract'
import { Batcher, type Failpoints, together } from '@dormouse/process'
import { isGuardFailure } from '../db/guards.ts'
import type { LongReads, Pages } from '../db/long-reads.ts'
import { type Db, type Note, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { Tx } from '../db/transactions.ts'
import type { Offers } from '../images/offers.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import { lineOf, supersedeOne } from '../operations/followers.ts'
import type { OperationRow } from '../operations/store.ts'
import * as operations from '../operations/store.ts'
import type { Slot } from '../operations/work-queue.ts'
import { admits, type Reach, wholeOrg } from '../principals/scope.ts'
import type { Customer } from '../principals/service.ts'
import { isSuspended } from '../principals/store.ts'
import { alreadyDone } from './already.ts'
import { change, isNameTaken, nameTaken } from './changes.ts'
import type { BeginCheck, LabelRules } from './label-rules.ts'
import { costOf, type LifecycleBudget } from './lifecycle-budget.ts'
import { isWakeOfAwake, joinedBy, lineOfEnsured, requireLegal, waitsBehind } from './line.ts'
import { planOfNew, requireReadable } from './plans.ts'
import type { Quota } from './quota.ts'
import { readBack } from './read-back.ts'
import { type DesktopKey, findShown, list, listAny, listQuery } from './shown.ts'
import { sizesOf, type TierSize } from './sizes.ts'
import { begin } from './state-changes.ts'
import type { DesktopRow } from './store.ts'
import * as store from './store.ts'
import { keyOfAnother, type ListWish, reached, requireWithin } from './within.ts'

export interface DesktopsOptions {
  pool: Pool
  leadership: Leadership
  engine: Engine
  quota: Quota
  lifecycle: LifecycleBudget
  longReads: LongReads
  failpoints: Failpoints
  tiers: Record<Tier, TierSize>
  /** The largest disk that a desktop can grow to. */
  maxDiskGiB: number
  offers: Pick<Offers, 'whyNot' | 'defaultImage'>
  defaultIdleTimeoutSecs: number
  deadlineMs: Record<RequestKind, number>
  /** Whether to retry a wake that was refused because its desktop is awake. */
  mayWake(desktopId: string): Promise<boolean>
  /** What may refuse labels. */
  labelRules(): LabelRules
}

/** Whether the answer is an earlier record with the same Idempotency-Key, and whether the request's body was the same. */
export type Replay = 'no' | 'same' | 'mismatch'

interface Created {
  desktop: DesktopRow
  replay: Replay
  /** Whether this request made it. */
  made: boolean
}

interface CreateWish {
  plan: store.NewPlan
  key: string | null
  fingerprint: Buffer
  /** Whether quotas may count it by its labels. */
  hasQuotas: boolean
}

/** A create that was refused. */
interface Refused {
  made: false
  refusal: Refusal
}

export interface TransitionRequest {
  key: string | null
  fingerprint: Buffer
  requestId: string
  expectedGeneration: number | null
  discardMemory: boolean
  /** Asks for the result: an operation that brings it is joined, and a wake waits behind any hibernation. */
  ensure?: boolean
  /** The host that an operator chose for a first wake. */
  onHost?: string
  /** The caller by default. */
  requestedBy?: OperationRequester
  /** Set for a hibernation by idle. It does not wait for a slot: it is refused instead. */
  idle?: IdleRequest
}

export interface IdleRequest {
  /** The condition that the host checks last. */
  condition: IdleCondition
  /** Throws a refusal if the desktop is no longer idle; called under its lock. */
  requireIdle(tx: Db, desktop: DesktopRow): Promise<void>
}

/** A request for a transition, and whether the operation may begin in the transaction that accepts it. */
interface Acceptance {
  id: string
  kind: RequestKind
  params: TransitionRequest
  operationId: string
  mayOpen: boolean
  note: Note | undefined
}

interface Accepted {
  operation: OperationRow
  replay: Replay
  /** Undefined if this request has begun nothing. */
  term: Term | undefined
  superseded: OperationRow[]
  /** The desktop was as the request wants it. */
  already: boolean
}

export class Desktops {
  readonly #options: DesktopsOptions
  /** Batches reads of single desktops. A longer statement would delay the first row by more than it saves. */
  readonly #reads: Batcher<DesktopKey, DesktopJson | undefined>

  constructor(options: DesktopsOptions) {
    this.#options = options
    this.#reads = new Batcher((keys) => findShown(options.pool, keys), { most: 64 })
  }

  /**
   * Creates a desktop, or returns the one that the organisation has already created with this key; with `get_or_create`, the one
   * that has this name.
   */
  async create(caller: Customer, body: CreateDesktopBody, key: string | null, fingerprint: Buffer): Promise<Created> {
    const { offers } = this.#options
    requireWithin(caller.scope, body)
    const image = body.image ?? body.image_version
    const earlier = () => this.#earlier(caller, body, key, fingerprint)
    if (body.get_or_create) {
      if (!body.name) refuseField('name', 'must be sent with get_or_create')
      const found = await earlier()
      if (found) return found
    }
    const earlierOr = async (otherwise: () => never) => (await earlier()) ?? otherwise()
    const whyNot = image && (await offers.whyNot(image))
    if (whyNot) return earlierOr(() => refuseField(body.image ? 'image' : 'image_version', whyNot))
    const plan = refusalOr(() => planOfNew(body))
    if (plan instanceof Refusal) return earlierOr(() => refuseWith(plan))
    const full = (limit: number) => refuse('quota_exceeded', refusals.quota_exceeded.detail({ limit }))
    const makeWithinBudget = async (hasQuotas: boolean): Promise<Created | Refused> => {
      const cost = costOf(body.labels ?? {})
      const over = this.#options.lifecycle.take(caller.orgId, cost)
      if (over) return earlierOr(() => refuseWith(over))
      const wish = { plan, key, fingerprint, hasQuotas }
      const done = await this.#make(caller, body, wish).catch(refusedBy('quota_exceeded', 'name_taken'))
      if (!done.made) this.#options.lifecycle.giveBack(caller.orgId, cost)
      return done
    }
    const done = await this.#options.quota
      .within<Created | Refused>(caller.orgId, makeWithinBudget, (limit) => earlierOr(() => full(limit)))
      .catch(refusedBy('org_suspended'))
    return 'refusal' in done ? earlierOr(() => refuseWith(done.refusal)) : done
  }

  async #make(
    caller: Customer,
    body: CreateDesktopBody,
    { plan, key, fingerprint, hasQuotas }: CreateWish,
  ): Promise<Created> {
    const { tiers, offers, defaultIdleTimeoutSecs, pool } = this.#options
    const id = newId()
    const find = async () => {
      const row = await store.find(pool, caller, id)
      return row && made(row)
    }
    const desktop = {
      id,
      orgId: caller.orgId,
      tier: body.tier,
      ...tiers[body.tier],
      imageVersion: body.image ?? body.image_version ?? offers.defaultImage,
      idleTimeoutSecs: body.idle_timeout_secs ?? defaultIdleTimeoutSecs,
      wakeOn: body.wake_on ?? [],
      billingMode: body.billing_mode ?? 'hourly',
      name: body.name ?? null,
      labels: body.labels ?? {},
      plan,
      key,
      fingerprint: key === null ? null : fingerprint,
    }
    // The desktop that has the name may be destroyed between the two statements. Then the name is free.
    for (;;) {
      const inserted = await readBack(pool, key, find, () =>
        hasQuotas
          ? this.#options.labelRules().create(caller.orgId, desktop.labels, (begin) => this.#insert(desktop, begin))
          : this.#insert(desktop),
      )
      const earlier = inserted ?? (await this.#earlier(caller, body, key, fingerprint))
      if (earlier) return earlier
      const holder = body.name && (await retryWhileUnavailable(() => store.findByName(pool, caller.orgId, body.name!)))
      if (holder) throw nameTaken(holder, caller.scope)
    }
  }

  /** Undefined if the key or the name is in use. */
  async #insert(desktop: store.NewDesktop, begin?: BeginCheck): Promise<Created | undefined> {
    const { leadership } = this.#options
    const insert = async (tx: Db) => {
      const row = await store.insert(tx, desktop)
      return row && made(row)
    }
    if (!begin) return leadership.transactionAtOnce(insert)
    return leadership.transaction(async (tx) => {
      const check = await begin(tx)
      await check(null, desktop.labels)
      tx.last()
      return insert(tx)
    })
  }

  /** The desktop that the organisation has created with this key; with `get_or_create`, the one with this name. */
  async #earlier(
    caller: Customer,
    { name, get_or_create: isWanted }: CreateDesktopBody,
    key: string | null,
    fingerprint: Buffer,
  ): Promise<Created | undefined> {
    const { leadership, pool } = this.#options
    if (key === null && !(isWanted && name)) return undefined
    const find = () =>
      leadership.transaction(async (tx) => {
        const byKey = key === null ? undefined : await store.findByKey(tx, caller.orgId, key)
        if (byKey && !admits(caller.scope, byKey)) refuse('conflict', keyOfAnother)
        if (byKey) return replayed(byKey, fingerprint)
        const byName = isWanted && name ? await store.findByName(tx, caller.orgId, name) : undefined
        if (byName && !admits(caller.scope, byName)) throw nameTaken(byName, caller.scope)
        return byName && ({ desktop: byName, replay: 'no', made: false } as const)
      })
    return readBack(pool, key, async () => undefined, find)
  }

  async get(caller: Customer, id: string): Promise<DesktopRow> {
    return (await retryWhileUnavailable(() => store.find(this.#options.pool, caller, id))) ?? refuseNotFound()
  }

  /** Whether a move of the desktop is in progress. */
  async isMoving(id: string): Promise<boolean> {
    return (await lineOf(this.#options.pool, id)).ahead?.kind === 'move'
  }

  /** The operation that wakes the desktop, or will; undefined if there is none. */
  async wakeInProgress(id: string): Promise<OperationRow | undefined> {
    const { current, next } = await retryWhileUnavailable(() => lineOf(this.#options.pool, id))
    return [next, current].find((operation) => operation?.kind === 'wake')
  }

  /** The state now; undefined if the desktop is gone. */
  async stateOf(id: string): Promise<DesktopState | undefined> {
    const [desktop] = await store.findMany(this.#options.pool, [id])
    return desktop?.state
  }

  /** The labels of these desktops now. */
  async labelsOf(ids: string[]): Promise<Map<string, Labels>> {
    const rows = ids.length === 0 ? [] : await store.findMany(this.#options.pool, [...new Set(ids)])
    return new Map(rows.map(({ id, labels }) => [id, labels]))
  }

  /** The desktop as the caller sees it. */
  async show(caller: Customer, id: string): Promise<DesktopJson> {
    const desktop = await retryWhileUnavailable(() => this.#reads.add({ orgId: caller.orgId, id }))
    return desktop && admits(caller.scope, desktop) ? desktop : refuseNotFound()
  }

  list(caller: Customer, params: ListWish & { limit: number }): Promise<DesktopJson[]> {
    return retryWhileUnavailable(() => list(this.#options.pool, reached(caller, params)))
  }

  /** The whole list as a snapshot, however long. */
  listAll(caller: Customer, params: ListWish, gone: AbortSignal): Promise<Pages<DesktopJson>> {
    const query = listQuery(reached(caller, { ...params, limit: null }))
    return this.#options.longReads.open(caller.orgId, query, gone)
  }

  /** For operators: the desktops of every organisation. */
  listAny(params: Parameters<typeof listAny>[1]): Promise<DesktopJson[]> {
    return retryWhileUnavailable(() => listAny(this.#options.pool, params))
  }

  /** For operators: a desktop of any organisation, also a destroyed one. */
  async showAny(id: string): Promise<DesktopJson> {
    return (await this.listAny({ id, limit: 1 }))[0] ?? refuseNotFound()
  }

  /** For operators: a request on behalf of the desktop's organisation. */
  async requestAsOperator(
    id: string,
    kind: RequestKind,
    params: TransitionRequest,
    note: Note,
  ): Promise<{ operation: OperationRow; replay: Replay }> {
    const [row] = await store.findMany(this.#options.pool, [id])
    return this.request(wholeOrg((row ?? refuseNotFound()).orgId), id, kind, params, note)
  }

  /** The operation; refuses if its desktop does not exist for the caller. */
  async operation({ orgId, scope }: Customer, id: string): Promise<OperationRow> {
    const { pool } = this.#options
    return retryWhileUnavailable(async () => {
      const [found, desktop] = await Promise.all([
        operations.find(pool, orgId, id),
        scope === null ? undefined : store.findByOperation(pool, id),
      ])
      return found && (scope === null || (desktop && admits(scope, desktop))) ? found : refuseNotFound()
    })
  }

  /** Changes what the body names, all of it or nothing, and what `note` writes with it. */
  async change(
    caller: Reach,
    id: string,
    body: ChangeDesktopBody,
    note?: (tx: Db) => Promise<void>,
  ): Promise<DesktopRow> {
    requireReadable(body)
    const { leadership, labelRules } = this.#options
    const transact = (begin?: BeginCheck) =>
      leadership.transaction(async (tx) => {
        const [found, check] = await together([store.lock(tx, caller, id), begin?.(tx) ?? Promise.resolve(undefined)])
        const changed = await change(
          tx,
          found ?? refuseNotFound(),
          body,
          { sizes: this.#options, scope: caller.scope },
          check,
        )
        requireWithin(caller.scope, changed)
        await note?.(tx)
        return changed
      })
    const attempt = (): Promise<DesktopRow> =>
      (body.labels ? labelRules().change(caller.orgId, transact) : transact())
        // A name that was taken in the same moment is found by the next attempt.
        .catch((error: unknown) => (isNameTaken(error) ? attempt() : Promise.reject(error)))
    return attempt()
  }

  /** The operation as customers see it. */
  operationToJson(row: OperationRow): OperationJson {
    return operations.operationToJson(row, this.#options.engine.progressOf(row))
  }

  /** The operation as operators see it; undefined if there is none. */
  wholeOperation(id: string): Promise<AdminOperationJson | undefined> {
    const { pool, engine } = this.#options
    return retryWhileUnavailable(() => operations.readWhole(pool, id, (row) => engine.progressOf(row)))
  }

  /** Changes the state and queues the operation in one transaction, so that neither is ever visible without the other. */
  async request(
    caller: Reach,
    id: string,
    kind: RequestKind,
    params: TransitionRequest,
    note?: Note,
  ): Promise<{ operation: OperationRow; replay: Replay }> {
    const { leadership, engine, failpoints, pool } = this.#options
    let operationId = newId()
    const findMade = async () => {
      const operation = await operations.read(pool, operationId)
      // The operations that it superseded are not known.
      if (operation) engine.supersededBy(operation)
      return operation && { operation, replay: 'no' as const, term: leadership.term, superseded: [], already: false }
    }
    const slots: Slot[] = []
    const attempt = (mayOpen: boolean) =>
      readBack(pool, params.key, findMade, () =>
        leadership.transaction(async (tx, term) => {
          const made = await this.#accept(tx, term, caller, { id, kind, params, operationId, mayOpen, note }, slots)
          await note?.(tx, id, { operation_id: made.operation.id })
          return made
        }),
      )
    try {
      const first = await attempt(true).catch(async (error: unknown) => {
        if (isWakeOfAwake(kind, error) && (await this.#options.mayWake(id))) {
          // The desktop now hibernates. The wake waits behind that, so it needs a later id.
          operationId = newId()
          return attempt(true)
        }
        if (!isGuardFailure(error)) throw error
        // The host cannot take it at once. The engine tries again, and reports why it fails.
        slots.pop()?.release()
        return attempt(false)
      })
      // Awake in the database, but its host may find its guest paused: then it hibernates first.
      const isPaused = first.already && kind === 'wake' && (await this.#options.mayWake(id))
      if (isPaused) operationId = newId()
      const accepted = isPaused ? await attempt(true) : first
      await failpoints.hit('operation.accepted')
      for (const row of accepted.superseded) engine.superseded(row)
      if (accepted.operation.behind !== null) engine.giveWay(accepted.operation.behind, accepted.operation.id)
      if (!accepted.term) return accepted
      // The response shows the operation as it was accepted, whether or not it begins at once.
      const { state } = accepted.operation
      const operation = { ...accepted.operation, state: state === 'running' ? ('pending' as const) : state }
      engine.accept(accepted.operation, accepted.term, slots.pop())
      return { operation, replay: accepted.replay }
    } finally {
      for (const slot of slots) slot.release()
    }
  }

  /**
   * Waits for an operation. Returns it once it has settled, or while it is in progress if the limit is reached or the client
   * disconnects.
   */
  settled(operation: OperationRow, gone: AbortSignal): Promise<OperationRow> {
    return this.#options.engine.wait(operation, gone)
  }

  #spend({ orgId, labels }: DesktopRow): void {
    const over = this.#options.lifecycle.take(orgId, costOf(labels))
    if (over) throw over
  }

  async #accept(
    tx: Tx,
    term: Term,
    caller: Reach,
    { id, kind, params, operationId, mayOpen, note }: Acceptance,
    slots: Slot[],
  ): Promise<Accepted> {
    const locked = store.lock(tx, caller, id)
    // Read under the lock: a concurrent request with this key has committed by then.
    const keyed = params.key === null ? Promise.resolve(undefined) : operations.findByKey(tx, id, params.key)
    const suspended = kind === 'wake' ? isSuspended(tx, caller.orgId) : Promise.resolve(false)
    const [found, earlier, present, isAsleep] = await together([locked, keyed, lineOf(tx, id), suspended])
    const desktop = found ?? refuseNotFound()
    if (earlier) return standing(earlier, { replay: compare(earlier.fingerprint, params.fingerprint) })
    if (params.expectedGeneration !== null && params.expectedGeneration !== desktop.generation) {
      const generations = { expected: params.expectedGeneration, current: desktop.generation }
      refuse('stale_generation', refusals.stale_generation.detail(generations))
    }
    if (isAsleep) refuse('org_suspended')
    const line = params.ensure ? lineOfEnsured(kind, present) : present
    const joined = params.ensure ? joinedBy(kind, desktop, line) : undefined
    if (joined === 'already') {
      const request = { ...params, id: operationId, deadlineMs: this.#options.deadlineMs[kind] }
      return standing(await alreadyDone(tx, kind, desktop, request), { already: true })
    }
    if (joined) return standing(joined)
    requireLegal(kind, desktop, line)
    if (params.onHost && desktop.hostId !== null)
      refuse('wrong_state', 'the desktop has a host already; only the first wake can name one')
    await params.idle?.requireIdle(tx, desktop)
    if (isCounted(kind, params)) this.#spend(desktop)
    const ahead = waitsBehind(kind, line, params.requestedBy)
    const generationId = kind === 'wake' && !ahead ? newId() : null
    const request = {
      id: operationId,
      desktopId: id,
      orgId: caller.orgId,
      kind,
      generation: generationId ? desktop.generation + 1 : desktop.generation,
      generationId: generationId ?? desktop.currentGenerationId,
      turn: ahead ? desktop.turn : desktop.turn + 1,
      behind: ahead?.id ?? null,
      input: inputOf(desktop, kind, params),
      requestId: params.requestId,
      requestedBy: params.requestedBy ?? 'caller',
      key: params.key,
      fingerprint: params.key === null ? null : params.fingerprint,
      deadlineMs: this.#options.deadlineMs[kind],
    }
    const because = { code: 'superseded', detail: 'superseded by destroy', cause: 'superseded by destroy' } as const
    if (ahead) {
      const superseded = line.next ? [await supersedeOne(tx, line.next.id, because)] : []
      return { ...standing(await operations.insert(tx, request)), term, superseded }
    }
    const opened = mayOpen ? this.#options.engine.open(request) : undefined
    if (opened) slots.push(opened.slot)
    else if (params.idle) refuse('overloaded', 'the desktop’s host is busy; the desktop is checked again later')
    // The row is locked, so what these statements write is known before they are sent.
    if (!note) tx.last()
    const [superseded, , operation] = await together([
      kind === 'destroy' ? operations.supersede(tx, id, because) : Promise.resolve([]),
      begin(tx, id, kind, generationId),
      operations.insert(tx, request, opened?.begun),
      Promise.resolve(opened?.write(tx)),
    ])
    return { ...standing(operation), term, superseded }
  }
}

/** What a request gets; without a term, an operation that it has not begun. */
const standing = (
  operation: OperationRow,
  { replay = 'no', already = false }: { replay?: Replay; already?: boolean } = {},
): Accepted => ({ operation, replay, term: undefined, superseded: [], already })

/** The desktop as it is when the request is accepted, and what the request wants. */
const inputOf = (desktop: DesktopRow, kind: RequestKind, { discardMemory, onHost, idle }: TransitionRequest) => ({
  from: desktop.state,
  hostId: desktop.hostId,
  spec: store.specOf(desktop),
  tier: desktop.tier,
  ...(kind === 'wake' && { sizes: sizesOf(desktop), discardMemory, onHost }),
  ...(idle && { ifIdle: idle.condition }),
})

/** Turns a refusal with one of these codes into a value. */
const refusedBy =
  (...codes: RefusalCode[]) =>
  (error: unknown): Refused => {
    if (error instanceof Refusal && codes.includes(error.code)) return { made: false, refusal: error }
    throw error
  }

/** What it returns, or the refusal that it throws. */
function refusalOr<T>(make: () => T): T | Refusal {
  try {
    return make()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

function refuseWith(refusal: Refusal): never {
  throw refusal
}

/**
 * Destroys are not counted: a desktop is destroyed once, and its cost ends with that. The service's own requests are bounded by
 * those of customers; those of a schedule are a customer's.
 */
const isCounted = (kind: RequestKind, { requestedBy = 'caller' }: TransitionRequest): boolean =>
  kind !== 'destroy' && (requestedBy === 'caller' || requestedBy === 'schedule')

const made = (desktop: DesktopRow): Created => ({ desktop, replay: 'no', made: true })

const replayed = (desktop: DesktopRow, fingerprint: Buffer): Created => ({
  desktop,
  replay: compare(desktop.fingerprint, fingerprint),
  made: false,
})

const compare = (earlier: Buffer | null, now: Buffer): Replay => (earlier?.equals(now) ? 'same' : 'mismatch')
