// What hosts say of the epochs they have obeyed. One later than the database's means that the database was restored from an
// older copy, or that the host is not to be believed: its word counts once, and then an operator is asked.
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

/** No word uses more numbers up than this. */
const credibleStep = 1_000_000

export class Epochs {
  readonly #options: EpochsOptions
  /** The highest that each host had obeyed when it linked. */
  readonly #said = new Map<string, number>()

  constructor(options: EpochsOptions) {
    this.#options = options
  }

  note(hostId: string, epoch: number): void {
    this.#said.set(hostId, epoch)
  }

  /**
   * Whether the host follows this term. Where it names a later epoch, the database's is raised above it, once for each host,
   * which ends the term; after that the host gets no commands until `trust`, or until the epochs have come up to its word.
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
    this.#tell(verdict, { host: hostId, epoch: term.epoch, seen: epoch })
    return false
  }

  /** An operator’s word for the host: it has commands again, and its word about the epoch counts once more. */
  async trust(idOrName: string, note: Note): Promise<{ id: string; wasWithheld: boolean }> {
    const { leadership, hosts, links } = this.#options
    const trusted = await leadership.transaction(async (tx, term) => {
      const host = await hosts.lockNamed(tx, idOrName)
      const epoch = host.withheldEpoch ?? 0
      if (epoch - term.epoch > credibleStep) {
        refuse(
          'conflict',
          `the host says it obeyed epoch ${epoch}, and the database is at ${term.epoch}: no history explains that; remove the host and enrol it anew`,
        )
      }
      await hosts.trust(tx, host.id)
      await note(tx, host.id, { name: host.name, epoch: host.withheldEpoch })
      return { id: host.id, wasWithheld: host.withheldEpoch !== null }
    })
    links.withhold(trusted.id, false)
    return trusted
  }

  #tell(verdict: 'believed' | 'withheld' | 'again', facts: { host: string; epoch: number; seen: number }): void {
    const { log } = this.#options
    const alarm = { ...facts, alarm: true }
    if (verdict === 'believed') {
      log.error(alarm, 'a host has seen a later epoch than the database: was it restored from an older copy?')
    } else if (verdict === 'withheld') {
      log.error(
        { ...alarm, remedy: 'dormouse admin host trust' },
        'a host names a later epoch than the database and is not believed; it gets no commands until an operator trusts it',
      )
    }
  }
}
