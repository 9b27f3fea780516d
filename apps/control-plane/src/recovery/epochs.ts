// The epochs that hosts report. One above the database's means that the database was restored from an older backup, or that
// the host is wrong. Each host is believed once; after that an operator must decide.
import { refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import type { Note } from '../db/pool.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import { raiseAbove } from '../leadership/store.ts'

export interface EpochsOptions {
  leadership: Leadership
  links: Links
  hosts: Hosts
  log: Log
}

/** A larger jump of the epoch is not credible. */
const credibleStep = 1_000_000

export class Epochs {
  readonly #options: EpochsOptions
  /** The highest epoch that each host reported when it linked. */
  readonly #said = new Map<string, number>()

  constructor(options: EpochsOptions) {
    this.#options = options
  }

  note(hostId: string, epoch: number): void {
    this.#said.set(hostId, epoch)
  }

  /**
   * Whether the host accepts the epoch of this term. If it reports a later one, the database's epoch is raised to it, once
   * for each host, which ends the term. After that, commands to the host are withheld until an operator trusts it or the
   * epochs have caught up.
   */
  async settle(term: Term, hostId: string): Promise<boolean> {
    const { leadership, hosts, links } = this.#options
    const epoch = this.#said.get(hostId) ?? 0
    if (epoch <= term.epoch) {
      await hosts.acceptEpoch(hostId)
      return true
    }
    const credible = epoch - term.epoch <= credibleStep
    const verdict = await leadership.transaction(async (tx) => {
      const heard = await hosts.hearEpoch(tx, { hostId, epoch, credible })
      if (heard === 'believed') await raiseAbove(tx, epoch)
      return heard
    })
    links.withhold(hostId, verdict !== 'believed')
    this.#log(verdict, { host: hostId, epoch: term.epoch, seen: epoch })
    return false
  }

  /** An operator trusts the host: its commands are allowed again, and its epoch may be believed once more. */
  async trust(idOrName: string, note: Note): Promise<{ id: string; wasWithheld: boolean }> {
    const { leadership, hosts, links } = this.#options
    const trusted = await leadership.transaction(async (tx, term) => {
      const host = await hosts.lockNamed(tx, idOrName)
      const epoch = host.withheldEpoch ?? 0
      if (epoch - term.epoch > credibleStep) {
        refuse(
          'conflict',
          `the host reports epoch ${epoch}, but the database is at ${term.epoch}, and such a jump is not credible; remove the host and enrol it again`,
        )
      }
      await hosts.trust(tx, host.id)
      await note(tx, host.id, { name: host.name, epoch: host.withheldEpoch })
      return { id: host.id, wasWithheld: host.withheldEpoch !== null }
    })
    links.withhold(trusted.id, false)
    return trusted
  }

  #log(verdict: 'believed' | 'withheld' | 'again', facts: { host: string; epoch: number; seen: number }): void {
    const { log } = this.#options
    const alarm = { ...facts, alarm: true, alarmKind: 'epoch' }
    if (verdict === 'believed') {
      log.error(alarm, 'a host reports a later epoch than the database; was the database restored from a backup?')
    } else if (verdict === 'withheld') {
      log.error(
        { ...alarm, remedy: 'dormouse admin host trust' },
        'a host reports a later epoch than the database; its commands are withheld until an operator trusts it',
      )
    }
  }
}
