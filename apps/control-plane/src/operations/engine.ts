// Runs operations step by step: it stores its progress before each step, resumes after a crash, and undoes the steps after
// a failure. Knows neither what the steps do nor HTTP.
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, type OperationProgress, Refusal } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import { inLane } from '../db/lanes.ts'
import { type Db, isConnectionLost, type Pool, sqlState } from '../db/pool.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import {
  nextStep,
  type OperationDefinition,
  read,
  StateMismatch,
  type Step,
  type StepContext,
  WaitsBehind,
} from './definition.ts'
import { Abandoned, type Failure, failureFrom, isTransient } from './failures.ts'
import { followerOf } from './followers.ts'
import type { EngineObserver } from './observer.ts'
import { type Opened, open } from './opening.ts'
import { Progress, type Reported } from './progress.ts'
import { backoff, type Running, requireOurs, runningOf } from './running.ts'
import { settleLocked, storeFailure, storeSuccess } from './settling.ts'
import type { NewOperation, OperationRow } from './store.ts'
import * as store from './store.ts'
import type { Waiters } from './waiters.ts'
import type { Slot, WorkQueue } from './work-queue.ts'

export interface EngineOptions {
  pool: Pool
  leadership: Leadership
  waiters: Waiters
  queue: WorkQueue
  definitions: Record<string, OperationDefinition>
  failpoints: Failpoints
  log: Log
  observer: EngineObserver
  /** Each progress report of a long save or restore extends the deadline to at least this long from now. */
  progressGraceMs: number
  /** Begins the request that waits behind a settled operation, or settles it as failed. Undefined if none waits. */
  follow(tx: Db, behind: string): Promise<OperationRow | undefined>
}

/** An agent reconnects within 3 s. */
const linkGraceMs = 5_000
const bugLimit = 5
/** A longer wait for a slot is stored, so that a new leader does not count it as the operation's own time. */
const unmarkedWaitMs = 5_000
/** How many stored operations a new leader reads at once. */
const readAtOnce = 500

export class Engine {
  readonly #options: EngineOptions
  readonly #running = new Map<string, Running>()
  readonly #progress: Progress

  constructor(options: EngineOptions) {
    this.#options = options
    this.#progress = new Progress({
      definitionOf: (row) => this.#definition(row),
      ahead: (id) => options.queue.ahead(id),
    })
    options.leadership.on('led', (term) => void inLane('work', () => this.#adopt(term)))
  }

  /** Begins an operation in the transaction that accepts it, if it need not wait. */
  open(operation: NewOperation): Opened | undefined {
    return open(operation, this.#definition(operation), this.#options.queue)
  }

  /** Starts an operation that has just been committed. If this process crashes, `#adopt` finds it. */
  accept(row: OperationRow, term: Term, slot?: Slot): void {
    if (term.signal.aborted || this.#running.has(row.id) || row.behind !== null) slot?.release()
    else this.#start(row, term, 0, slot)
  }

  /** Returns the settled operation, or the one in progress when the cap is reached or the client disconnects. */
  wait(row: OperationRow, gone: AbortSignal): Promise<OperationRow> {
    return this.#options.waiters.wait(row, gone, this.#running.get(row.id)?.hasSettled === false)
  }

  /** Stops an operation that a later request has settled. */
  superseded(row: OperationRow): void {
    this.#running.get(row.id)?.abort.abort(new Abandoned('superseded'))
    this.#options.waiters.settled(row)
    this.#options.observer.settled(row)
  }

  /** A request waits behind this operation, or it is no longer wanted: it is undone if that is still possible. */
  giveWay(id: string, follower?: string): void {
    const running = this.#running.get(id)
    if (!running) return
    const { givesWay, begunFor } = this.#definition(running.row)
    if (follower !== undefined && begunFor?.(running.row) === follower) return
    if (givesWay?.(running.row))
      running.yields.abort(new Refusal('superseded', 'a request of the customer came before the move was decided'))
  }

  /** Stops what else runs for the desktop of an operation whose acceptance was read back: that may have settled it. */
  supersededBy({ id, desktopId, behind }: OperationRow): void {
    if (behind !== null) this.giveWay(behind, id)
    for (const { row, abort } of this.#running.values())
      if (behind === null && row.desktopId === desktopId && row.id !== id) abort.abort(new Abandoned('superseded'))
  }

  /** The host reports progress of a long step: the deadline is extended. Reports of other hosts are ignored. */
  progress(hostId: string, operationId: string, reported?: Reported): void {
    const running = this.#running.get(operationId)
    if (!running) return
    const definition = this.#definition(running.row)
    if (definition.hostOf(running.row) !== hostId && definition.helperOf?.(running.row) !== hostId) return
    if (reported) this.#progress.report(running.row, reported)
    running.deadline = Math.max(running.deadline, performance.now() + this.#options.progressGraceMs)
  }

  /** How far an operation has come; null once it has settled. */
  progressOf(row: OperationRow): OperationProgress | null {
    const first = row.behind === null ? undefined : this.#running.get(row.behind)?.row
    const isForIt = first && this.#definition(first).begunFor?.(first) === row.id
    return isForIt ? this.#progress.of(first, first) : this.#progress.of(row, this.#running.get(row.id)?.row)
  }

  /** Resolves when no operation is running: for an orderly stop, and for tests. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all([...this.#running.values()].map((running) => running.done))
  }

  get runningCount(): number {
    return this.#running.size
  }

  /** Starts operations that were committed but never started, because the answer to their commit was lost. */
  async adoptUnstarted(): Promise<void> {
    const { term } = this.#options.leadership
    if (term) await this.#adopt(term)
  }

  /** Resumes every stored operation that has not settled. Retries until all are read, or the term has ended. */
  async #adopt(term: Term): Promise<void> {
    const { pool, log } = this.#options
    const start = (row: OperationRow) => term.signal.aborted || this.#start(row, term, performance.now() + linkGraceMs)
    while (!term.signal.aborted) {
      try {
        const ids = (await store.liveIds(pool)).filter((id) => this.#running.get(id)?.term !== term)
        if (ids.length > 0) log.info({ count: ids.length, epoch: term.epoch }, 'resuming operations')
        while (ids.length > 0) {
          for (const row of await store.liveOf(pool, ids.splice(0, readAtOnce))) {
            // An operation that still runs in an earlier term delays no other.
            const ended = this.#running.get(row.id)?.done
            if (ended) void ended.then(() => start(row))
            else start(row)
          }
        }
        return
      } catch (error) {
        log.warn({ err: error }, 'operations could not be read; retrying')
        await sleep(200, undefined, { ref: false })
      }
    }
  }

  #start(row: OperationRow, term: Term, hostsDueAt = 0, slot?: Slot): void {
    if (this.#running.has(row.id)) return
    if (row.behind !== null) this.#waitsBehind(row.id, row.behind, term)
    else this.#startNow(row, term, hostsDueAt, slot)
  }

  #startNow(stored: OperationRow, term: Term, hostsDueAt: number, slot?: Slot): void {
    const row = this.#read(stored)
    if (!row) {
      slot?.release()
      return
    }
    this.#options.observer.accepted(row)
    const running = runningOf(row, term, hostsDueAt, slot)
    this.#running.set(row.id, running)
    running.done = inLane('work', () => this.#runInTurn(running))
      .catch((error) => {
        if (error instanceof WaitsBehind) return error.first
        this.#options.log.info(
          { operation: row.id, why: error.message },
          'operation stopped; another replica or a later request has taken over',
        )
      })
      .finally(() => {
        running.slot?.release()
        this.#progress.forget(row.id)
        this.#running.delete(row.id)
        if (!running.hasSettled) this.#options.waiters.left(row.id)
        this.#options.observer.left(row)
      })
      .then((first) => first && this.accept(first, term))
  }

  /** An operation that does not fit its definition is left as it is: a destroy ends it. */
  #read(row: OperationRow): Running['row'] | undefined {
    try {
      return read(this.#definition(row), row)
    } catch (err) {
      const facts = { err, operation: row.id, alarm: true, alarmKind: 'unexpected_state' }
      this.#options.log.error(facts, 'a stored operation cannot be read and is not run; destroy its desktop')
      return undefined
    }
  }

  /** From an earlier leader: the operation that it waits behind runs here and begins it, or has settled. */
  #waitsBehind(id: string, behind: string, term: Term): void {
    if (this.#running.has(behind)) this.giveWay(behind, id)
    else void this.#beginNext(behind, term)
  }

  /** Begins the request that waits behind a settled operation. Never rejects: if it fails, the next adoption repeats it. */
  async #beginNext(behind: string, term: Term): Promise<void> {
    const { pool, leadership, waiters, observer, log, follow } = this.#options
    try {
      // Nothing can come behind an operation that has settled, so one read decides.
      if (!(await followerOf(pool, behind))) return
      const next = await leadership.transaction((tx) => follow(tx, behind))
      if (!next) return
      if (!store.isSettled(next)) return this.accept(next, term)
      waiters.settled(next)
      observer.settled(next)
    } catch (err) {
      log.warn({ err, operation: behind }, 'what waits behind an operation could not begin yet')
    }
  }

  async #runInTurn(running: Running): Promise<void> {
    const { row } = running
    const tooLate = await this.#waitForSlot(running)
    if (tooLate) Object.assign(row, { undoing: true, failure: tooLate, step: Math.max(row.step, 0) })
    return this.#options.observer.run(row, () => this.#run(running))
  }

  /** Runs the operation until it has settled, whatever fails on the way. Rejects when it is no longer ours. */
  async #run(running: Running): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#runOnce(running)
      } catch (error) {
        if (error instanceof Abandoned) throw error
        this.#options.log.error(
          { err: error, operation: running.row.id },
          'an operation hit an unexpected error; retrying',
        )
        await backoff(running, attempt)
      }
    }
  }

  async #runOnce(running: Running): Promise<void> {
    const { row } = running
    const failure = row.undoing ? row.failure : await this.#runSteps(running)
    const settled = failure ? await this.#undoSteps(running, failure) : await this.#succeedOrUndo(running)
    running.hasSettled = true
    this.#options.waiters.settled(settled)
    this.#options.observer.settled(settled)
    if (this.#definition(row).precedes?.(row)) await this.#beginNext(row.id, running.term)
  }

  /** Runs the steps from the stored one on. Returns why a step failed; undefined if all succeeded. */
  async #runSteps(running: Running): Promise<Failure | undefined> {
    const { row } = running
    const definition = this.#definition(row)
    for (let at = running.opened > 0 ? 0 : Math.max(row.step, 0); at < definition.steps.length; at++) {
      const step = definition.steps[at]!
      // The transaction that accepted it has done this step. A failure here is undone anyway.
      const isDone = at < running.opened
      row.step = at
      if (!isDone) await this.#prepare(running, step)
      try {
        await this.#options.failpoints.hit(`${row.kind}.${step.name}.before`)
        if (!isDone) await this.#attempt(running, step, 'run')
        if (step.advances) running.marked = nextStep(definition, row)
        await this.#options.failpoints.hit(`${row.kind}.${step.name}.after`)
      } catch (error) {
        return failureFrom(error, row.kind)
      }
    }
    return undefined
  }

  /** Waits for the slot of a step, and stores that it begins if no transaction before has done so. */
  async #prepare(running: Running, step: Step): Promise<void> {
    const { row, deadline } = running
    await this.#waitForSlot(running)
    requireOurs(running)
    const isMarked = running.marked >= row.step || step.advances
    const hasWaited = running.deadline - deadline > unmarkedWaitMs
    if ((!isMarked || hasWaited) && !step.idle?.(row)) await this.#mark(running)
  }

  /**
   * Waits until the operation may do its work, if its next step does it. That takes none of its own time. Returns why it failed
   * if it has waited too long; an operation that has begun waits without a limit.
   */
  async #waitForSlot(running: Running): Promise<Failure | undefined> {
    const { row, signal, slot, acceptedAt } = running
    const definition = this.#definition(row)
    const hostId = definition.hostOf(row)
    if (slot && (slot.hostId === hostId || row.undoing)) return undefined
    const began = performance.now()
    const begun = row.undoing || row.state === 'running' || slot !== undefined
    // An undo frees what others wait for.
    const overtakes = row.undoing || definition.overtakes === true
    const ticket = { id: row.id, orgId: row.orgId, hostId, overtakes, begun, waitedMs: began - acceptedAt }
    try {
      const ended = row.undoing ? signal : AbortSignal.any([signal, running.yields.signal])
      running.slot = await this.#options.queue.enter(ticket, ended)
    } catch (error) {
      requireOurs(running)
      return failureFrom(error, row.kind)
    } finally {
      slot?.release()
    }
    running.deadline += performance.now() - began
    return undefined
  }

  /** Undoes the steps, beginning with the one that failed: it may have done part of its work. */
  async #undoSteps(running: Running, failure: Failure): Promise<OperationRow> {
    const { row } = running
    const definition = this.#definition(row)
    Object.assign(row, { undoing: true, failure })
    await this.#waitForSlot(running)
    for (; row.step >= 0; row.step--) {
      await this.#mark(running)
      await this.#undoStep(running, definition.steps[row.step]!)
    }
    const fail = () =>
      settleLocked(this.#options.leadership, definition, row, async (tx, context, live) => {
        await live
        const lost = await definition.failed(tx, context, failure).catch((error) => this.#leaveState(row, error))
        return storeFailure(tx, definition, row, { ...failure, detail: messageOf(failure.code, lost) })
      })
    return this.#settle(running, fail)
  }

  /** The desktop keeps the state that was found; the operation still settles as failed, and the log names that state. */
  #leaveState({ id }: OperationRow, error: unknown): undefined {
    if (!(error instanceof StateMismatch)) throw error
    this.#options.log.error(
      { err: error, operation: id, alarm: true, alarmKind: 'unexpected_state' },
      'a failed operation found an unexpected state and left it unchanged',
    )
  }

  /** An undo that still fails at the deadline is deferred, whatever the reason. Its operation settles anyway. */
  async #undoStep(running: Running, step: Step): Promise<void> {
    const { row } = running
    try {
      await this.#attempt(running, step, 'undo')
    } catch (error) {
      if (error instanceof Abandoned) throw error
      this.#options.log.warn({ err: error, operation: row.id, step: step.name }, 'an undo is deferred')
      Object.assign(row.findings, step.deferred, { why: (error as Error).message })
    }
  }

  /** A success that cannot be stored is a failure like any other: its steps are undone. */
  async #succeedOrUndo(running: Running): Promise<OperationRow> {
    try {
      return await this.#succeed(running)
    } catch (error) {
      const isFinal = error instanceof StateMismatch || (sqlState(error) !== undefined && !isConnectionLost(error))
      if (!isFinal) throw error
      const failure = failureFrom(error, running.row.kind)
      this.#options.log.error({ err: error, operation: running.row.id }, 'a success could not be stored; undoing it')
      running.row.step = this.#definition(running.row).steps.length - 1
      return this.#undoSteps(running, failure)
    }
  }

  async #succeed(running: Running): Promise<OperationRow> {
    const { row, term } = running
    const definition = this.#definition(row)
    const settled = await this.#settle(running, () => storeSuccess(this.#options.leadership, definition, row))
    definition.afterwards?.({ operation: row, epoch: term.epoch }).catch((error) => {
      this.#options.log.info({ err: error, operation: row.id }, 'work after an operation failed; recovery repeats it')
    })
    return settled
  }

  async #settle(running: Running, store: () => Promise<OperationRow>): Promise<OperationRow> {
    const { row } = running
    await this.#options.failpoints.hit(`${row.kind}.settle.before`)
    const settled = await this.#persist(running, store)
    await this.#options.failpoints.hit(`${row.kind}.settle.after`)
    return settled
  }

  async #mark(running: Running): Promise<void> {
    const { row, deadline } = running
    row.leftMs = deadline - performance.now()
    const { name } = this.#definition(row).steps[row.step]!
    const { leadership } = this.#options
    const live = await this.#persist(running, () => leadership.transactionAtOnce((tx) => store.mark(tx, row, [name])))
    if (!live) throw store.settledMeanwhile()
    running.marked = row.step
  }

  /** Retries a write until it succeeds: an unavailable database delays an operation but fails none. */
  async #persist<T>(running: Running, write: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      requireOurs(running)
      try {
        return await write()
      } catch (error) {
        if (error instanceof Abandoned || error instanceof StateMismatch) throw error
        if (error instanceof Refusal && error.code === 'not_leader') throw new Abandoned('no longer leading')
        this.#options.log.warn({ err: error, operation: running.row.id }, 'an operation could not be stored; retrying')
        if (!isConnectionLost(error) && attempt >= bugLimit) throw error
        await backoff(running, attempt)
      }
    }
  }

  /**
   * Runs a step or its undo. A transient refusal is retried until the deadline, an unexpected error a few times, and an undo
   * until the deadline whatever its error is.
   */
  async #attempt(running: Running, step: Step, way: 'run' | 'undo'): Promise<void> {
    const { row } = running
    const { observer } = this.#options
    for (let attempt = 0; ; attempt++) {
      requireOurs(running)
      try {
        if (way === 'run') running.yields.signal.throwIfAborted()
        if (way === 'undo') await this.#options.failpoints.hit(`${row.kind}.${step.name}.undo`)
        const tried = { operation: row, step: step.name, way }
        const found = await observer.attempt(tried, async () => step[way]?.(this.#context(running, way)))
        Object.assign(row.findings, found)
        return
      } catch (error) {
        requireOurs(running)
        if (error instanceof Abandoned) throw error
        if (way === 'run') running.yields.signal.throwIfAborted()
        if (error instanceof Refusal && error.code === 'not_leader') throw new Abandoned('no longer leading')
        const now = performance.now()
        const mayPass = now < running.deadline && isTransient(error, now < running.hostsDueAt)
        const isBug = !(error instanceof Refusal) && !isConnectionLost(error)
        if (isBug) this.#options.log.error({ err: error, operation: row.id, step: step.name, way }, 'a step failed')
        if (way === 'run' && running.marked < row.step) await this.#mark(running)
        if (way === 'undo' && performance.now() >= running.deadline) throw error
        if (way === 'run' && !mayPass && !(isBug && attempt < bugLimit)) throw error
        await backoff(running, attempt)
        // Past the deadline there is no further attempt: the cause is the last answer, not a timeout of zero.
        if (way === 'run' && mayPass && performance.now() >= running.deadline) throw error
      }
    }
  }

  #context(running: Running, way: 'run' | 'undo'): StepContext {
    const { row, term } = running
    const signal = way === 'run' ? AbortSignal.any([running.signal, running.yields.signal]) : running.signal
    const remainingMs = way === 'undo' ? 30_000 : Math.max(1, running.deadline - performance.now())
    const ageMs = performance.now() - running.acceptedAt
    return {
      ...{ operation: row, epoch: term.epoch, signal, remainingMs, ageMs },
      advance: async (tx, found) => {
        const findings = { ...row.findings, ...found }
        const step = nextStep(this.#definition(row), { ...row, findings })
        const begun = [row.step, step].filter((at) => at > running.marked)
        await this.#store(tx, running, { step, findings }, begun)
      },
      note: (tx, found) => this.#store(tx, running, { findings: { ...row.findings, ...found } }, [row.step]),
    }
  }

  /** Stores how far the operation has come in the transaction of its step. `begun`: steps that are marked with it. */
  async #store(tx: Db, { row, deadline }: Running, come: Partial<Running['row']>, begun: number[]): Promise<void> {
    const { steps } = this.#definition(row)
    const leftMs = deadline - performance.now()
    const names = begun.map((at) => steps[at]!.name)
    if (!(await store.mark(tx, { ...row, ...come, leftMs }, names))) throw store.settledMeanwhile()
  }

  #definition(row: Pick<OperationRow, 'kind'>): OperationDefinition {
    const definition = this.#options.definitions[row.kind]
    if (!definition) throw new Error(`no definition of operation kind ${row.kind}`)
    return definition
  }
}
