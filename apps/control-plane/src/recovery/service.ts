// Brings database and hosts back to one truth: when a host links, when it reports a change, when it was out of reach.
import type { Hello, Observation, RejoinOrder } from '@dormouse/contract'
import { newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import type { Links } from '../agents/links.ts'
import { isDatabaseAway, type Pool } from '../db/pool.ts'
import type { DeferredCommand } from '../desktops/deferred.ts'
import * as deferred from '../desktops/deferred.ts'
import { type Asleep, stateAfterFailure } from '../desktops/operations/wake.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import { raiseAbove } from '../leadership/store.ts'
import * as operations from '../operations/store.ts'
import { PassesByHost } from './passes.ts'
import { isDrastic, judge, judgeMissing, massLimit, type Verdict } from './rejoin.ts'

export interface RecoveryOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  log: Log
}

/** What is looked at, on which host, and since when the picture is true, by the database's clock. */
interface Sight {
  hostId: string
  id: string
  asOf: Date
}

const commandTimeoutMs = 60_000
const deferredAtOnce = 4
const believableEpochs = 1_000_000

export class Recovery {
  readonly #options: RecoveryOptions
  readonly #comparing = new PassesByHost()
  readonly #carrying = new PassesByHost()
  /** The highest that each host had obeyed when it linked. */
  readonly #epochs = new Map<string, number>()

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /** A host has linked. Only the leader looks; when a replica becomes leader it looks at every host. */
  joined(hostId: string, { highestEpoch }: Hello): void {
    this.#epochs.set(hostId, highestEpoch)
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
        const seen = this.#epochs.get(hostId) ?? 0
        if (seen > term.epoch) await this.#raiseEpoch(term, hostId, seen)
        else await this.#pass(term, hostId)
      }),
    )
  }

  /** Something changed on a host that no command asked for. The report is a hint: by now it may be old. */
  async observed(hostId: string, { desktopId, reason }: Observation): Promise<void> {
    const { leadership, links, pool } = this.#options
    if (!leadership.term) return
    await this.#guarded(async () => {
      const asOf = await desktops.clock(pool)
      const item = await links.command(hostId, 'desktop.observe', { desktopId }, { timeoutMs: commandTimeoutMs })
      const told = { ...item, reason: item.reason ?? reason }
      await leadership.transaction((tx) => this.#correct(tx, { hostId, id: desktopId, asOf }, told))
    })
  }

  /** The host has obeyed a later leader than any the database knows: it was restored from an older copy. */
  async #raiseEpoch(term: Term, hostId: string, seen: number): Promise<void> {
    const { pool, log } = this.#options
    log.error(
      { host: hostId, epoch: term.epoch, seen, alarm: true },
      'a host has seen a later epoch than the database: was it restored from an older copy?',
    )
    // The word of one host must not use all numbers up.
    if (seen - term.epoch <= believableEpochs) await raiseAbove(pool, seen)
  }

  /** Begins to carry out what was put off, on every host that is linked now. Waits for none: one may hang. */
  async carryOutDeferred(): Promise<void> {
    const { leadership, links, pool } = this.#options
    if (!leadership.term) return
    for (const hostId of await deferred.hostsAmong(pool, links.hostIds())) void this.#carryOutOn(hostId)
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

  /** Care that fails is logged and comes round again; a change of leader, a lost link or database is no fault of it. */
  async #guarded(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      const passing = error instanceof Refusal && (error.code === 'not_leader' || error.code === 'host_unreachable')
      const expected = passing || isDatabaseAway(error)
      this.#options.log[expected ? 'info' : 'error']({ err: error }, 'recovery was interrupted')
    }
  }

  async #pass(term: Term, hostId: string): Promise<void> {
    const { links, pool, log } = this.#options
    // What was put off was asked for by name: it counts as no mass action, and is done before the picture is taken.
    await this.#carryOutOn(hostId)
    const asOf = await desktops.clock(pool)
    const { items } = await links.command(hostId, 'host.inventory', {}, { timeoutMs: commandTimeoutMs })
    const orders: RejoinOrder[] = []
    for (const item of items) {
      // One item that cannot be settled keeps no other from it.
      await this.#guarded(async () => {
        const order = await this.#settle({ hostId, id: item.desktopId, asOf }, item)
        if (!order) return
        orders.push({ desktopId: item.desktopId, seen: { generation: item.generation, turn: item.turn }, order })
      })
    }
    await this.#settleMissing(hostId, asOf, new Set(items.map((item) => item.desktopId)))
    const drastic = orders.filter(({ order }) => isDrastic(order)).length
    if (drastic > massLimit(items.length)) {
      log.error(
        { host: hostId, drastic, items: items.length, alarm: true },
        'too much would be stopped or removed at once; nothing is done',
      )
      return
    }
    if (orders.length > 0)
      await links.command(hostId, 'host.rejoin', { epoch: term.epoch, orders }, { timeoutMs: commandTimeoutMs })
  }

  #settle(where: Sight, item: Observation | undefined): Promise<RejoinOrder['order'] | undefined> {
    return this.#options.leadership.transaction((tx) => this.#correct(tx, where, item))
  }

  async #settleMissing(hostId: string, asOf: Date, present: Set<string>): Promise<void> {
    for (const row of await desktops.believedOn(this.#options.pool, hostId)) {
      if (!present.has(row.id) && judgeMissing(row)) await this.#settle({ hostId, id: row.id, asOf }, undefined)
    }
  }

  /**
   * Under the desktop's lock, only while no operation is under way and no undo is put off, and only where none has settled
   * since the picture was taken: makes the state true; answers the order.
   */
  async #correct(
    tx: pg.PoolClient,
    { hostId, id, asOf }: Sight,
    item: Observation | undefined,
  ): Promise<RejoinOrder['order'] | undefined> {
    const row = await desktops.lockAny(tx, id)
    if (row && (row.updatedAt >= asOf || (await operations.hasLive(tx, id)))) return undefined
    if (row && (await deferred.owesUndo(tx, id, hostId, row.turn))) return undefined
    if (!item) {
      if (row && row.hostId === hostId) await this.#become(tx, row, judgeMissing(row))
      return undefined
    }
    const verdict: Verdict = judge(hostId, item, row)
    if (verdict.alarm) this.#options.log.error({ host: hostId, item, state: row?.state, alarm: true }, verdict.alarm)
    if (row) await this.#become(tx, row, verdict.become, item.reason)
    return verdict.order
  }

  async #become(
    tx: pg.PoolClient,
    row: DesktopRow,
    state: DesktopRow['state'] | undefined,
    reason?: string | null,
  ): Promise<void> {
    if (!state || state === row.state) return
    this.#options.log.warn(
      { desktop: row.id, was: row.state, is: state, reason },
      'a desktop was found in another state',
    )
    await desktops.settle(tx, row.id, state, { operationId: null })
    if (row.currentGenerationId) await desktops.endGeneration(tx, row.currentGenerationId, reason ?? 'found stopped')
    await this.#options.hosts.releaseMemory(tx, row.id)
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
          await this.#become(tx, row, await this.#afterUndo(tx, row, command, answer as never), 'wake failed')
      }
      await deferred.done(tx, command)
    })
    log.info({ desktop: command.desktopId, command: command.command }, 'a deferred command was carried out')
  }
  /** What an undo leaves: an operation that was forgotten meanwhile counts as one that gave no memory up. */
  async #afterUndo(tx: pg.PoolClient, { state: from }: DesktopRow, { operationId }: DeferredCommand, answer: Asleep) {
    const operation = await operations.read(tx, operationId)
    return stateAfterFailure({ from, discardMemory: operation?.input.discardMemory === true }, answer)
  }
}

/** The host has obeyed a later request for the desktop. */
const isOvertaken = (error: unknown): boolean =>
  error instanceof Refusal && (error.code === 'stale_turn' || error.code === 'superseded')

/** A host's words go into the database: of a length, and of characters that it takes. */
const inOneLine = (error: unknown): string =>
  (error instanceof Refusal ? error.detail : String(error))
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
    .slice(0, 500)
