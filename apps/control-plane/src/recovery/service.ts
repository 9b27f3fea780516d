// Brings database and hosts back to one truth: when a host links, when it reports a change, when it was out of reach.
import type { Hello, Observation, RejoinOrder } from '@dormouse/contract'
import { newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import type { DeferredCommand } from '../desktops/deferred.ts'
import * as deferred from '../desktops/deferred.ts'
import { stateAfterFailure } from '../desktops/operations/wake.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as operations from '../operations/store.ts'
import { isDrastic, judge, judgeMissing, massLimit, type Verdict } from './rejoin.ts'

export interface RecoveryOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  log: Log
}

const commandTimeoutMs = 60_000

export class Recovery {
  readonly #options: RecoveryOptions
  /** One pass per host at a time; a second wish during it makes one more. */
  readonly #passes = new Map<string, Promise<void>>()

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /** A host has linked with its inventory. Only the leader answers; when a replica becomes leader it asks anew. */
  joined(hostId: string, hello: Hello): void {
    void this.#serially(hostId, (term) => this.#pass(term, hostId, hello.inventory))
  }

  /** A new leader asks every linked host what it has. */
  async led(): Promise<void> {
    await Promise.all(this.#options.links.hostIds().map((hostId) => this.ask(hostId)))
  }

  /** Asks one host for its inventory and settles the differences. */
  ask(hostId: string): Promise<void> {
    return this.#serially(hostId, async (term) => {
      await this.#pass(term, hostId, await this.#inventoryOf(hostId))
    })
  }

  async #inventoryOf(hostId: string): Promise<Observation[]> {
    return (await this.#options.links.command(hostId, 'host.inventory', {}, { timeoutMs: commandTimeoutMs })).items
  }

  /** Something changed on a host that no command asked for. */
  async observed(hostId: string, item: Observation): Promise<void> {
    await this.#guarded(() =>
      this.#options.leadership.transaction((tx) => this.#correct(tx, hostId, item.desktopId, item)),
    )
  }

  /** Carries out what was put off, on every host that is linked now. */
  async carryOutDeferred(): Promise<void> {
    const { leadership, links, pool } = this.#options
    const term = leadership.term
    if (!term) return
    for (const command of await deferred.ofHosts(pool, links.hostIds())) await this.#carryOut(term, command)
  }

  #serially(hostId: string, work: (term: Term) => Promise<void>): Promise<void> {
    const previous = this.#passes.get(hostId) ?? Promise.resolve()
    const mine = previous.then(() =>
      this.#guarded(async () => {
        const term = this.#options.leadership.term
        if (term) await work(term)
      }),
    )
    this.#passes.set(hostId, mine)
    return mine
  }

  /** Care that fails is logged and comes round again; a change of leader or a lost link is no fault. */
  async #guarded(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      const expected = error instanceof Refusal && (error.code === 'not_leader' || error.code === 'host_unreachable')
      this.#options.log[expected ? 'info' : 'error']({ err: error }, 'recovery was interrupted')
    }
  }

  async #pass(term: Term, hostId: string, said: Observation[]): Promise<void> {
    const { links, pool, log } = this.#options
    const putOff = await deferred.ofHosts(pool, [hostId])
    for (const command of putOff) await this.#carryOut(term, command)
    // What was put off was asked for by name: it counts as no mass action, and what the host said before it is old.
    const items = putOff.length === 0 ? said : await this.#inventoryOf(hostId)
    const orders: RejoinOrder[] = []
    for (const item of items) {
      const order = await this.#settleItem(hostId, item)
      if (order)
        orders.push({ desktopId: item.desktopId, seen: { generation: item.generation, turn: item.turn }, order })
    }
    await this.#settleMissing(hostId, new Set(items.map((item) => item.desktopId)))
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

  async #settleItem(hostId: string, item: Observation): Promise<RejoinOrder['order'] | undefined> {
    return this.#options.leadership.transaction((tx) => this.#correct(tx, hostId, item.desktopId, item))
  }

  async #settleMissing(hostId: string, present: Set<string>): Promise<void> {
    const { leadership, pool } = this.#options
    for (const row of await desktops.believedOn(pool, hostId)) {
      if (!present.has(row.id) && judgeMissing(row)) {
        await leadership.transaction((tx) => this.#correct(tx, hostId, row.id, undefined))
      }
    }
  }

  /** Under the desktop's lock, and only while no operation is under way: makes the state true; answers the order. */
  async #correct(
    tx: pg.PoolClient,
    hostId: string,
    id: string,
    item: Observation | undefined,
  ): Promise<RejoinOrder['order'] | undefined> {
    const row = await desktops.lockAny(tx, id)
    if (row && (await operations.hasLive(tx, id))) return undefined
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

  /** Sends one command that was put off; a later turn of the desktop has made it pointless. */
  async #carryOut(term: Term, command: DeferredCommand): Promise<void> {
    const { desktopId, generation, turn, operationId, hostId } = command
    const fence = { desktopId, generation, turn, operationId, epoch: term.epoch, deadlineMs: commandTimeoutMs }
    await this.#guarded(async () => {
      try {
        const answer = await this.#options.links.command(
          hostId,
          command.command,
          { fence },
          { timeoutMs: commandTimeoutMs, requestId: newId() },
        )
        await this.#finish(command, answer)
      } catch (error) {
        if (!(error instanceof Refusal) || (error.code !== 'stale_turn' && error.code !== 'superseded')) throw error
        await this.#finish(command, {})
      }
    })
  }

  async #finish(command: DeferredCommand, answer: object): Promise<void> {
    const { leadership, hosts, log } = this.#options
    await leadership.transaction(async (tx) => {
      const row = await desktops.lockAny(tx, command.desktopId)
      if (row?.turn === command.turn && !(await operations.hasLive(tx, row.id))) {
        if (row.state === 'destroyed') await hosts.releaseAll(tx, row.id)
        else if ('state' in answer)
          await this.#become(tx, row, stateAfterFailure(row.state, answer as never), 'wake failed')
      }
      await deferred.done(tx, command)
    })
    log.info({ desktop: command.desktopId, command: command.command }, 'a deferred command was carried out')
  }
}
