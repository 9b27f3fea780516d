// Reconciles the database with the hosts: when a host links, when it reports a change, and when it was unreachable.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Hello, Observation } from '@dormouse/contract'
import { isOvertaken, newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import type { StandingAlarms } from '../alarms/service.ts'
import { inLane } from '../db/lanes.ts'
import type { Db, Note, Pool } from '../db/pool.ts'
import type { DeferredCommand } from '../desktops/deferred.ts'
import * as deferred from '../desktops/deferred.ts'
import { stateAfterFailure } from '../desktops/operations/failed-wake.ts'
import { type Asleep, discardsMemory } from '../desktops/operations/stored.ts'
import type { Desktops } from '../desktops/service.ts'
import { takeSize } from '../desktops/size-store.ts'
import { isNew, sizeKept, sizesOf } from '../desktops/sizes.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as operations from '../operations/store.ts'
import { CoalescedRuns } from './coalesced-runs.ts'
import { Comparison } from './comparison.ts'
import { Epochs } from './epochs.ts'
import { guarded } from './guarded.ts'
import { checkHeldEvents } from './held-events.ts'
import { Hints } from './hints.ts'
import { checkPaused } from './paused-alarms.ts'
import { PausedGuests } from './paused-guests.ts'

export interface RecoveryOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  desktops: Desktops
  alarms: StandingAlarms
  log: Log
}

const commandTimeoutMs = 60_000
const deferredAtOnce = 4
/** The pace at which the comparisons with all hosts begin: 1,000 hosts in 12 s. */
const begunAtOnce = 8
const beginEveryMs = 100

export class Recovery {
  readonly #options: RecoveryOptions
  readonly #comparing = new CoalescedRuns()
  readonly #sending = new CoalescedRuns()
  readonly #running = new Set<Promise<void>>()
  readonly #epochs: Epochs
  readonly #comparison: Comparison
  readonly #hints: Hints
  readonly #pausedGuests: PausedGuests

  constructor(options: RecoveryOptions) {
    this.#options = options
    this.#epochs = new Epochs(options)
    this.#pausedGuests = new PausedGuests(options)
    this.#comparison = new Comparison({ ...options, paused: this.#pausedGuests })
    this.#hints = new Hints((hostId, hints) => this.#guarded(() => this.#comparison.hinted(hostId, hints)))
  }

  /** A host has linked. Only the leader compares; a new leader compares every host. */
  joined(hostId: string, { highestEpoch }: Hello): void {
    this.#epochs.note(hostId, highestEpoch)
    void this.compare(hostId)
  }

  /**
   * Begins to compare every linked host, a few at a time, so that a thousand hosts delay no request. Does not wait for them:
   * one may hang.
   */
  async compareAll(): Promise<void> {
    const { leadership, links } = this.#options
    const { term } = leadership
    const left = links.hostIds()
    while (left.length > 0 && term && !term.signal.aborted) {
      for (const hostId of left.splice(0, begunAtOnce)) void this.compare(hostId)
      if (left.length > 0) await sleep(beginEveryMs, undefined, { ref: false })
    }
  }

  /** Requests one host's inventory and resolves the differences. */
  compare(hostId: string): Promise<void> {
    return this.#comparing.request(hostId, () =>
      this.#leading(async (term) => {
        if (!(await this.#epochs.settle(term, hostId))) return
        // Deferred commands run before the inventory is taken: they were requested one by one and are no mass action.
        await this.#sendDeferred(hostId)
        await this.#comparison.whole(term, hostId)
      }),
    )
  }

  /** An operator trusts a host; returns its id, and whether its commands were withheld. */
  async trust(idOrName: string, note: Note): Promise<{ id: string; wasWithheld: boolean }> {
    const trusted = await this.#epochs.trust(idOrName, note)
    void this.compare(trusted.id)
    return trusted
  }

  /** Whether to try a wake again that was refused because its desktop is awake. */
  mayWake(desktopId: string): Promise<boolean> {
    return this.#pausedGuests.mayWake(desktopId)
  }

  /** A host reports a change that no command caused. The report may be outdated: it only triggers a new observation. */
  observed(hostId: string, hint: Observation): void {
    if (this.#options.leadership.term) this.#hints.take(hostId, hint)
  }

  /** Raises an alarm while the log of events is held back for long. By the leader. */
  async checkEvents(heldBackMs: number): Promise<void> {
    await checkHeldEvents(this.#options, heldBackMs)
  }

  /**
   * Begins to send the deferred commands of every linked host, and raises alarms for those that leave a desktop paused. Does not
   * wait for hosts: one may hang.
   */
  async sendDeferred(): Promise<void> {
    const { leadership, links, pool } = this.#options
    if (!leadership.term) return
    const able = links.hostIds().filter((hostId) => links.takesCommands(hostId))
    for (const hostId of await deferred.hostsAmong(pool, able)) void this.#sendDeferred(hostId)
    await checkPaused(this.#options)
  }

  /** Sends a few at a time, so that one that hangs until its deadline delays few others of its host. */
  #sendDeferred(hostId: string): Promise<void> {
    return this.#sending.request(hostId, () =>
      this.#leading(async (term) => {
        const left = await deferred.ofHost(this.#options.pool, hostId)
        const sendAll = async () => {
          for (let next = left.shift(); next; next = left.shift()) await this.#sendOne(term, next)
        }
        await Promise.all(Array.from({ length: deferredAtOnce }, sendAll))
      }),
    )
  }

  async #leading(work: (term: Term) => Promise<void>): Promise<void> {
    await this.#guarded(async () => {
      const { term } = this.#options.leadership
      if (term) await work(term)
    })
  }

  /** Resolves when no recovery is running: for an orderly stop, after the term and the links have ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  #guarded(work: () => Promise<unknown>): Promise<void> {
    const run = inLane('work', () => guarded(this.#options.log, work)).finally(() => this.#running.delete(run))
    this.#running.add(run)
    return run
  }

  /** Sends one deferred command. */
  async #sendOne(term: Term, command: DeferredCommand): Promise<void> {
    await this.#guarded(async () => {
      const answer = await this.#send(term, command)
      if (answer) await this.#finish(command, answer)
    })
  }

  /** The host's answer: empty if a later turn made the command obsolete, undefined if it failed. */
  async #send(term: Term, command: DeferredCommand): Promise<object | undefined> {
    const { desktopId, generation, turn, operationId, hostId } = command
    const fence = { desktopId, generation, turn, operationId, epoch: term.epoch, deadlineMs: commandTimeoutMs }
    const asked = { timeoutMs: commandTimeoutMs, requestId: newId() }
    try {
      // Without a handoff the old host ends what is left of the guest.
      if (command.command === 'move.release')
        return await this.#options.links.command(hostId, command.command, { fence, handoff: null }, asked)
      return await this.#options.links.command(hostId, command.command, { fence }, asked)
    } catch (error) {
      if (isOvertaken(error, 'request')) return {}
      await this.#noteFailure(command, error)
      return undefined
    }
  }

  /** Stores the error for operators. The command will be retried. */
  async #noteFailure(command: DeferredCommand, error: unknown): Promise<void> {
    const { desktopId: desktop, hostId: host } = command
    this.#options.log.warn({ err: error, desktop, host }, 'a deferred command failed again; it will be retried')
    await this.#options.leadership.transaction((tx) => deferred.tried(tx, command, inOneLine(error)))
  }

  async #finish(command: DeferredCommand, answer: object): Promise<void> {
    const { leadership, hosts, log } = this.#options
    await leadership.transaction(async (tx) => {
      const row = await desktops.lockAny(tx, command.desktopId)
      if (row?.turn === command.turn && !(await operations.hasLive(tx, row.id))) {
        if (row.state === 'destroyed') await hosts.releaseAll(tx, row.id)
        else if ('state' in answer) {
          const ofMove = command.command.startsWith('move.')
          const state = ofMove
            ? (answer.state as DesktopRow['state'])
            : await this.#afterUndo(tx, row, command, answer as Exclude<Asleep, 'deferred'>)
          await this.#comparison.become(tx, row, state, ofMove ? 'found stopped' : 'wake failed')
        }
      }
      await deferred.done(tx, command)
    })
    log.info({ desktop: command.desktopId, command: command.command }, 'a deferred command succeeded')
  }

  /** The state after a deferred undo. Stores the size that the desktop then has. */
  async #afterUndo(
    tx: Db,
    row: DesktopRow,
    { operationId }: DeferredCommand,
    answer: Exclude<Asleep, 'deferred'>,
  ): Promise<DesktopRow['state']> {
    const { id, state: from } = row
    const had = { spec: desktops.specOf(row), sizes: sizesOf(row) }
    const kept = sizeKept(had, answer)
    if (kept && isNew(had, kept)) await takeSize(tx, id, kept)
    const operation = await operations.read(tx, operationId)
    return stateAfterFailure({ from, discardMemory: operation !== undefined && discardsMemory(operation) }, answer)
  }
}

/** A host's text goes into the database: limits its length, and replaces control characters. */
const inOneLine = (error: unknown): string =>
  (error instanceof Refusal ? error.detail : String(error))
    .slice(0, 500)
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
