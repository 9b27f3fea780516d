// Hosts: invitations, enrolment, health, placement and trust. Knows desktops only by their id.
import { createHash, randomBytes } from 'node:crypto'
import {
  type EnrolBody,
  type EnrolledJson,
  type HostFacts,
  type HostJson,
  type InviteJson,
  type ListedInviteJson,
  newId,
  type Refusal,
  refusalWithCause,
  refuse,
} from '@dormouse/contract'
import { type Log, together } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import { Gathered } from '../db/gathered.ts'
import { type Db, type Note, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { FailingHosts } from './failing.ts'
import { type HostWithImages, reportedImages, withImages } from './image-reports.ts'
import * as invites from './invites.ts'
import * as losses from './loss-store.ts'
import { outlook } from './outlook.ts'
import { HostOverview } from './overview.ts'
import { canTake, requireHost } from './placement.ts'
import { plausibleFacts } from './plausible-facts.ts'
import { replaceKey } from './proof-store.ts'
import { endQuarantine, quarantine } from './quarantine.ts'
import * as reservations from './reservations.ts'
import * as store from './store.ts'

const invitePrefix = 'dormouse_invite_'
const defaultInviteSecs = 86_400

export interface HostsOptions {
  pool: Pool
  leadership: Pick<Leadership, 'transaction'>
  links: Links
  installationId: string
  /** Virtual processors that a host may allocate for each of its own. */
  vcpusPerProcessor: number
  /** How long a host is quarantined whose wakes keep failing; 0 for never. */
  quarantineMs: number
  /** Whether moves may pass through this replica. */
  relaysMoves?: boolean
  log: Log
}

/** Where a desktop is to be placed. */
export interface ChosenHost {
  id: string
  /** Keeps other placements from the host until the transaction ends. Refuses if it cannot take the desktop. */
  confirm(tx: Db): Promise<void>
  reserve(tx: Db): Promise<void>
}

/** Other placements have taken the capacity since the host was chosen. */
class TakenMeanwhile extends Error {}

export class Hosts {
  readonly #options: HostsOptions
  readonly #heard: Gathered<store.Heard, store.Standing | undefined>
  readonly #overview: HostOverview
  readonly #failing = new FailingHosts()
  /** The ailment that was last logged of each host with implausible facts. */
  readonly #implausible = new Map<string, string | null>()

  constructor(options: HostsOptions) {
    this.#options = options
    const { pool, vcpusPerProcessor } = options
    this.#heard = new Gathered((said) => store.heard(pool, said))
    this.#overview = new HostOverview(async (ids, desktopId) => {
      const found = await store.candidates(pool, desktopId, ids, vcpusPerProcessor)
      if (found.length === 0) await requireSilence(pool, null)
      return found
    })
  }

  /** A token that enrols one host, once. It cannot be read again later. */
  async invite(name: string | null, validSecs = defaultInviteSecs, note: Note = unnoted): Promise<InviteJson> {
    const token = invitePrefix + randomBytes(32).toString('base64url')
    const id = newId()
    const expiresAt = await transaction(this.#options.pool, async (tx) => {
      await note(tx, id, { name, valid_secs: validSecs })
      return invites.insertInvite(tx, { id, hash: sha256(token), name, validSecs })
    })
    return { id, token, expires_at: expiresAt.toISOString() }
  }

  listInvites(): Promise<ListedInviteJson[]> {
    return retryWhileUnavailable(() => invites.listInvites(this.#options.pool))
  }

  /** Nobody enrols with it any more. Refuses if somebody has. */
  revokeInvite(id: string, note: Note): Promise<void> {
    return transaction(this.#options.pool, async (tx) => {
      const { hostId } =
        (await invites.revokeInvite(tx, id)) ??
        refuse('not_found', 'there is no such invitation; `dormouse admin host invites` lists them')
      if (hostId)
        refuse(
          'invite_spent',
          `host ${hostId} was enrolled with it; \`dormouse admin host remove ${hostId}\` removes it`,
        )
      await note(tx, id)
    })
  }

  /** Enrols a host with an invitation. A repeated request with the same token and key returns the same host. */
  async enrol({ token, name, public_key }: EnrolBody): Promise<EnrolledJson> {
    const { pool, installationId } = this.#options
    const hash = sha256(token)
    const hostId = await transaction(pool, async (tx) => {
      const id = newId()
      if (!(await invites.spendInvite(tx, hash, id))) return invites.findEnrolled(tx, hash, public_key)
      await store.insert(tx, { id, name, publicKey: public_key })
      return id
    })
    if (!hostId)
      return refuse(
        'invite_spent',
        'this invitation is unknown, spent or expired; make a new one with `dormouse admin host invite`',
      )
    return { host_id: hostId, installation_id: installationId }
  }

  /** Stores what a host reports of itself, unless it was removed. */
  async heard(hostId: string, said: HostFacts): Promise<void> {
    const { links } = this.#options
    const facts = plausibleFacts(said)
    if (facts !== said) this.#logImplausible(hostId, facts.ailment)
    else this.#implausible.delete(hostId)
    const host = await this.#heard.add({ id: hostId, facts })
    if (!host) return
    links.withhold(hostId, host.withheld)
    links.confine(hostId, host.lost)
  }

  /** Notes which hosts have become unreachable. By the leader. */
  async noteUnreachable(): Promise<void> {
    await this.#options.leadership.transaction((tx) => losses.noteUnreachable(tx))
  }

  #logImplausible(host: string, why: string | null): void {
    if (this.#implausible.get(host) === why) return
    this.#implausible.set(host, why)
    this.#options.log.error(
      { host, why, alarm: true, alarmKind: 'implausible_facts' },
      'a host reports implausible facts; it gets no desktop until they are fixed',
    )
  }

  /**
   * Chooses the host that holds the desktop's disk, or the best or the named host if it has no disk yet, and runs the
   * transaction that reserves capacity there. Runs it again with another choice if other placements have taken the capacity
   * meanwhile.
   */
  async place<T>(
    boundTo: string | null,
    request: store.PlacementRequest,
    run: (host: ChosenHost) => Promise<T>,
  ): Promise<T> {
    if (boundTo) return run(this.bound(boundTo, request))
    return this.#chosen(request.only, request, reservations.reserve, run)
  }

  /** The same for a desktop that moves: to this host, or to the best one. What it holds on its present host stays reserved. */
  placeAway<T>(
    to: string | null,
    request: store.PlacementRequest & Required<Pick<store.PlacementRequest, 'leaving'>>,
    run: (host: ChosenHost) => Promise<T>,
  ): Promise<T> {
    return this.#chosen(to ?? undefined, request, reservations.reserveArrival, run)
  }

  /**
   * Where desktops of a host could go now, one after the other, each with what those before it take: the host, or why there is
   * none. Reserves nothing.
   */
  async outlook(requests: store.PlacementRequest[]): Promise<(store.Candidate | Refusal)[]> {
    const { pool, links, vcpusPerProcessor } = this.#options
    const able = links.hostIds().filter((id) => links.takesCommands(id))
    return outlook(await store.candidates(pool, nobody, able, vcpusPerProcessor), requests)
  }

  async #chosen<T>(
    only: string | undefined,
    request: store.PlacementRequest,
    reserve: (tx: Db, id: string, request: store.PlacementRequest) => Promise<void>,
    run: (host: ChosenHost) => Promise<T>,
  ): Promise<T> {
    const { links } = this.#options
    const isAsked = (id: string) => (only === undefined || id === only) && !request.not?.includes(id)
    for (;;) {
      const able = links.hostIds().filter((id) => links.takesCommands(id) && isAsked(id))
      const choice = await this.#overview.choose(able, request)
      const id = choice.hostId
      const confirm = async (tx: Db) => {
        const host = await this.#locked(tx, id, request)
        if (!host || !canTake(host, request)) throw new TakenMeanwhile()
      }
      try {
        return await run({ id, confirm, reserve: (tx) => reserve(tx, id, request) })
      } catch (error) {
        if (!(error instanceof TakenMeanwhile)) throw error
        this.#overview.forget()
      } finally {
        this.#overview.end(choice)
      }
    }
  }

  /** The host that holds the desktop's disk. */
  bound(id: string, request: store.PlacementRequest): ChosenHost {
    const confirm = async (tx: Db) => {
      const host = await this.#locked(tx, id, request)
      if (!host) await requireSilence(tx, id)
      requireHost(host, request)
    }
    return { id, confirm, reserve: (tx) => reservations.reserve(tx, id, request) }
  }

  /** Whether the host is linked and its commands are not withheld. */
  takesCommands(id: string): boolean {
    return this.#options.links.takesCommands(id)
  }

  /**
   * Reserves capacity on the host that holds the desktop's disk, without an answer in between: keeps other placements from the
   * host only until the commit that is sent behind. Fails as a guard if the host cannot take the desktop.
   */
  async reserveAtOnce(tx: Db, id: string, request: store.PlacementRequest): Promise<void> {
    const reserving = reservations.reserveWhereFree(tx, id, request, this.#options.vcpusPerProcessor)
    await together([store.lockPlacements(tx, id), reserving])
  }

  async #locked(tx: Db, id: string, { desktopId }: store.PlacementRequest): Promise<store.Candidate | undefined> {
    const { links, vcpusPerProcessor } = this.#options
    if (!links.takesCommands(id)) return undefined
    const [host] = await store.lockedCandidates(tx, desktopId, id, vcpusPerProcessor)
    return host
  }

  /**
   * Decides on an epoch above the database's that the host reports. It is `believed` once for each host. After that, or if it
   * is not credible, commands to the host are `withheld`. `again`: they were withheld because of this epoch before.
   */
  async hearEpoch(
    tx: Db,
    { hostId, epoch, credible }: { hostId: string; epoch: number; credible: boolean },
  ): Promise<'believed' | 'withheld' | 'again'> {
    if (credible && (await store.believeEpoch(tx, hostId))) return 'believed'
    return (await store.withhold(tx, hostId, epoch)) ? 'withheld' : 'again'
  }

  /** The host's epoch is not above the database's: commands to it are allowed again. */
  async acceptEpoch(hostId: string): Promise<void> {
    const { pool, links } = this.#options
    if (!links.takesCommands(hostId) && (await store.release(pool, hostId))) links.withhold(hostId, false)
  }

  /** Locks the one host with that id or name. `withheldEpoch` is why its commands are withheld, null if they are not. */
  async lockNamed(tx: Db, idOrName: string): Promise<store.NamedHost & { withheldEpoch: number | null }> {
    const host = await findPresent(tx, idOrName)
    return { ...host, withheldEpoch: await store.lockWithheld(tx, host.id) }
  }

  /**
   * Cordons the one host with that id or name, or ends that and its quarantine; returns its id. A cordoned host takes no new
   * desktops, and those on it go on. A placement that has confirmed the host commits first. Idempotent.
   */
  async setCordoned(tx: Db, idOrName: string, cordoned: boolean, note: Note): Promise<string> {
    const { id, name } = await findPresent(tx, idOrName)
    await store.lockPlacements(tx, id)
    const draining = cordoned ? undefined : await store.drainOf(tx, id)
    if (draining) refuse('conflict', `${name} is drained by ${draining}; cancel that drain, or wait until it has ended`)
    const ended = !cordoned && (await endQuarantine(tx, id))
    const changed = (await store.setCordoned(tx, id, cordoned)) || ended
    if (!cordoned) this.#failing.succeeded(id)
    this.#overview.forget()
    await note(tx, id, changed ? { name } : null)
    return id
  }

  /** Ends the warm copies on the host; how many. Their desktops sleep on, and wake from their saved memories. */
  async dropWarmCopies(idOrName: string, note: Note): Promise<number> {
    const { pool, links } = this.#options
    const host = await findPresent(pool, idOrName)
    if (!host.keepsWarm) {
      await transaction(pool, (tx) => note(tx, host.id, null))
      return 0
    }
    const { dropped } = await links.command(host.id, 'host.dropWarmCopies', {}, { timeoutMs: dropMs })
    await transaction(pool, (tx) => note(tx, host.id, { name: host.name, dropped }))
    return dropped
  }

  /**
   * Replaces the key of a host that is linked. It links again with the new one, to each replica, and nobody else has it. If the
   * host does not get to know that it is stored, it links with either key.
   */
  async rotateKey(idOrName: string, note: Note): Promise<string> {
    const { pool, links } = this.#options
    const { id, name } = await findPresent(pool, idOrName)
    const { publicKey } = await links.command(id, 'key.renew', {}, { timeoutMs: renewMs })
    await transaction(pool, async (tx) => {
      await replaceKey(tx, id, publicKey)
      await note(tx, id, { name })
    })
    await links.disconnect(id, 'the key of the host was replaced')
    return id
  }

  /** The id of the one host with that id or name that is not removed. */
  async idOf(db: Db, idOrName: string): Promise<string> {
    return (await findPresent(db, idOrName)).id
  }

  /** A wake has failed there by the host's own fault. Too many in a row quarantine it. */
  async wakeFailed(hostId: string, desktopId: string, reason: string): Promise<void> {
    const { leadership, quarantineMs: ms, log } = this.#options
    if (!this.#failing.failed(hostId, desktopId) || ms === 0) return
    await leadership.transaction((tx) => quarantine(tx, hostId, { ms, reason }))
    this.#overview.forget()
    log.error(
      { host: hostId, why: reason, forMs: ms, alarm: true, alarmKind: 'quarantine' },
      'the wakes of a host keep failing; it is quarantined, and new desktops go to others',
    )
  }

  wakeSucceeded(hostId: string): void {
    this.#failing.succeeded(hostId)
  }

  /** Whether no replica has had contact with the host for so long that it counts as unreachable. */
  async isSilent(hostId: string): Promise<boolean> {
    return !(await store.heardLately(this.#options.pool, hostId))
  }

  trust = store.trust
  releaseMemory = reservations.releaseMemory
  releaseAll = reservations.releaseAll
  arrive = reservations.arrive
  dropArrival = reservations.dropArrival

  /** The one host with that id or name that is not removed. */
  findPresent = findPresent
  setDrain = store.setDrain

  isCordoned(id: string): Promise<boolean> {
    return store.isCordoned(this.#options.pool, id)
  }

  /** Whether moves may pass through the control plane. */
  get mayRelay(): boolean {
    return this.#options.relaysMoves ?? false
  }

  /** Whether the host was removed or declared lost: there is nothing to wait for. */
  async isGone(hostId: string): Promise<boolean> {
    return (await losses.goneAmong(this.#options.pool, [hostId])).length > 0
  }

  /** Whether the host was removed for good: it will never remove anything. */
  isRemoved(hostId: string, db: Db = this.#options.pool): Promise<boolean> {
    return losses.isRemoved(db, hostId)
  }

  /** What the hosts report of their images. */
  withImages(): Promise<HostWithImages[]> {
    return withImages(this.#options.pool)
  }

  /** The names of the images that any host reports which is not removed. */
  reportedImages(): Promise<string[]> {
    return reportedImages(this.#options.pool)
  }

  list(): Promise<HostJson[]> {
    const { pool, links, vcpusPerProcessor } = this.#options
    return retryWhileUnavailable(() => store.list(pool, vcpusPerProcessor, (id) => links.has(id)))
  }
}

/** The one host with that id or name that is not removed. */
const dropMs = 60_000
const renewMs = 15_000

async function findPresent(db: Db, idOrName: string): Promise<store.NamedHost> {
  const [host, another] = await store.findNamed(db, idOrName)
  if (another) refuse('conflict', `several hosts are called ${idOrName}; name it by its id`)
  return !host || host.removedAt ? store.unknown() : host
}

/** Refuses for now if the agent or this control plane has just restarted: the link will be back in a moment. */
async function requireSilence(db: Db, hostId: string | null): Promise<void> {
  if (await store.heardLately(db, hostId))
    throw refusalWithCause('host_unreachable', 'the host is not linked at the moment')
}

/** The id of no desktop. */
const nobody = '00000000-0000-0000-0000-000000000000'

const unnoted: Note = async () => undefined

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
