// Brings database and hosts back to one truth: when a host links, when it reports a change, when it was out of reach.
import type { Hello, Observation } from '@dormouse/contract'
import { newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import type { Links } from '../agents/links.ts'
import type { Note, Pool } from '../db/pool.ts'
import type { DeferredCommand } from '../desktops/deferred.ts'
import * as deferred from '../desktops/deferred.ts'
import { type AsleepResult, stateAfterFailure } from '../desktops/operations/failed-wake.ts'
import { discardsMemory } from '../desktops/operations/input.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as operations from '../operations/store.ts'
import { guarded } from './care.ts'
import { Comparison } from './comparison.ts'
import { Epochs } from './epochs.ts'
import { Hints } from './hints.ts'
import { PassesByHost } from './passes.ts'

export interface RecoveryOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  log: Log
}

const commandTimeoutMs = 60_000
const deferredAtOnce = 4
export class Recovery {
  readonly #options: RecoveryOptions
  readonly #comparing = new PassesByHost()
  readonly #carrying = new PassesByHost()
  readonly #underWay = new Set<Promise<void>>()
  readonly #epochs: Epochs
  readonly #comparison: Comparison
  readonly #hints: Hints

  constructor(options: RecoveryOptions) {
    this.#options = options
    this.#epochs = new Epochs(options)
    this.#comparison = new Comparison(options)
    this.#hints = new Hints((hostId, hints) => this.#guarded(() => this.#comparison.hinted(hostId, hints)))
  }

  /** A host has linked. Only the leader looks; when a replica becomes leader it looks at every host. */
  joined(hostId: string, { highestEpoch }: Hello): void {
    this.#epochs.note(hostId, highestEpoch)
    void this.ask(hostId)
  }

  /** Asks every linked host what it has. Waits for none: one may hang. */
  askAll(): void {
    for (const hostId of this.#options.links.hostIds()) void this.ask(hostId)
  }

  /** Asks one host for its inventory and settles the differences. */
  ask(hostId: string): Promise<void> {
    return this.#comparing.ask(hostId, () =>
      this.#leading(async (term) => {
        if (!(await this.#epochs.settle(term, hostId))) return
        // What was put off was asked for by name: it counts as no mass action, and is done before the picture is taken.
        await this.#carryOutOn(hostId)
        await this.#comparison.whole(term, hostId)
      }),
    )
  }

  /** An operator’s word for a host whose word about the epoch was not believed; answers its id, and whether it had no commands. */
  async trust(idOrName: string, note: Note): Promise<{ id: string; wasWithheld: boolean }> {
    const trusted = await this.#epochs.trust(idOrName, note)
    void this.ask(trusted.id)
    return trusted
  }

  /** Something changed on a host that no command asked for. The report is a hint: by now it may be old. */
  observed(hostId: string, hint: Observation): void {
    if (this.#options.leadership.term) this.#hints.take(hostId, hint)
  }

  /** Begins to carry out what was put off, on every host that is linked now. Waits for none: one may hang. */
  async carryOutDeferred(): Promise<void> {
    const { leadership, links, pool } = this.#options
    if (!leadership.term) return
    const able = links.hostIds().filter((hostId) => links.takesCommands(hostId))
    for (const hostId of await deferred.hostsAmong(pool, able)) void this.#carryOutOn(hostId)
  }

  /** A few at a time: one that hangs until its deadline keeps the others of its host waiting no longer than it must. */
  #carryOutOn(hostId: string): Promise<void> {
    return this.#carrying.ask(hostId, () =>
      this.#leading(async (term) => {
        const left = await deferred.ofHost(this.#options.pool, hostId)
        const carry = async () => {
          for (let next = left.shift(); next; next = left.shift()) await this.#carryOut(term, next)
        }
        await Promise.all(Array.from({ length: deferredAtOnce }, carry))
      }),
    )
  }

  async #leading(work: (term: Term) => Promise<void>): Promise<void> {
    await this.#guarded(async () => {
      const { term } = this.#options.leadership
      if (term) await work(term)
    })
  }

  /** Resolves when no care is under way: for an orderly stop, once there is no term and no link any more. */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  #guarded(work: () => Promise<unknown>): Promise<void> {
    const care = guarded(this.#options.log, work).finally(() => this.#underWay.delete(care))
    this.#underWay.add(care)
    return care
  }

  /** Sends one command that was put off. */
  async #carryOut(term: Term, command: DeferredCommand): Promise<void> {
    await this.#guarded(async () => {
      const answer = await this.#send(term, command)
      if (answer) await this.#finish(command, answer)
    })
  }

  /** What the host answers; nothing where a later turn has made it pointless, undefined where it did not succeed. */
  async #send(term: Term, command: DeferredCommand): Promise<object | undefined> {
    const { desktopId, generation, turn, operationId, hostId } = command
    const fence = { desktopId, generation, turn, operationId, epoch: term.epoch, deadlineMs: commandTimeoutMs }
    const asked = { timeoutMs: commandTimeoutMs, requestId: newId() }
    try {
      return await this.#options.links.command(hostId, command.command, { fence }, asked)
    } catch (error) {
      if (isOvertaken(error)) return {}
      await this.#keep(command, error)
      return undefined
    }
  }

  /** It is tried again, and an operator can read why. */
  async #keep(command: DeferredCommand, error: unknown): Promise<void> {
    const { desktopId: desktop, hostId: host } = command
    this.#options.log.warn({ err: error, desktop, host }, 'a deferred command has failed again')
    await this.#options.leadership.transaction((tx) => deferred.tried(tx, command, inOneLine(error)))
  }

  async #finish(command: DeferredCommand, answer: object): Promise<void> {
    const { leadership, hosts, log } = this.#options
    await leadership.transaction(async (tx) => {
      const row = await desktops.lockAny(tx, command.desktopId)
      if (row?.turn === command.turn && !(await operations.hasLive(tx, row.id))) {
        if (row.state === 'destroyed') await hosts.releaseAll(tx, row.id)
        else if ('state' in answer)
          await this.#comparison.become(
            tx,
            row,
            await this.#afterUndo(tx, row, command, answer as never),
            'wake failed',
          )
      }
      await deferred.done(tx, command)
    })
    log.info({ desktop: command.desktopId, command: command.command }, 'a deferred command was carried out')
  }
  /** What an undo leaves: an operation that was forgotten meanwhile counts as one that gave no memory up. */
  async #afterUndo(
    tx: pg.PoolClient,
    { state: from }: DesktopRow,
    { operationId }: DeferredCommand,
    answer: AsleepResult,
  ) {
    const operation = await operations.read(tx, operationId)
    return stateAfterFailure({ from, discardMemory: operation !== undefined && discardsMemory(operation) }, answer)
  }
}

/** The host has obeyed a later request for the desktop. */
const isOvertaken = (error: unknown): boolean =>
  error instanceof Refusal && (error.code === 'stale_turn' || error.code === 'superseded')

/** A host's words go into the database: of a length, and of characters that it takes. */
const inOneLine = (error: unknown): string =>
  (error instanceof Refusal ? error.detail : String(error))
    .slice(0, 500)
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
