// Hosts: how one is invited, enrols, proves itself, is heard of, and lends its room. Knows no desktop but by id.
import { createHash, randomBytes } from 'node:crypto'
import {
  type EnrolBody,
  type EnrolledJson,
  type HostFacts,
  type HostJson,
  type InviteJson,
  newId,
  refusalWithCause,
  refuse,
} from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import type { Links } from '../agents/links.ts'
import { type Db, type Note, type Pool, patiently, transaction } from '../db/pool.ts'
import { believable } from './believable.ts'
import { choose, insist } from './placement.ts'
import * as store from './store.ts'

const invitePrefix = 'dormouse_invite_'
const defaultInviteSecs = 86_400

export interface HostsOptions {
  pool: Pool
  links: Links
  installationId: string
  leaseMs: number
  /** How many virtual processors a host lends out for each of its own. */
  vcpusPerProcessor: number
  log: Log
}

export class Hosts {
  readonly #options: HostsOptions
  /** What was told of each host whose facts cannot be. */
  readonly #absurd = new Map<string, string | null>()

  constructor(options: HostsOptions) {
    this.#options = options
  }

  /** A token that enrols one host, once. Shown here and never again. */
  async invite(name: string | null, validSecs = defaultInviteSecs, note: Note = unnoted): Promise<InviteJson> {
    const token = invitePrefix + randomBytes(32).toString('base64url')
    const id = newId()
    const expiresAt = await transaction(this.#options.pool, async (tx) => {
      await note(tx, id, { name, valid_secs: validSecs })
      return store.insertInvite(tx, { id, hash: sha256(token), name, validSecs })
    })
    return { token, expires_at: expiresAt.toISOString() }
  }

  /** Spends an invitation on a host. Asked twice with one token and one key, it answers the same host. */
  async enrol({ token, name, public_key }: EnrolBody): Promise<EnrolledJson> {
    const { pool, installationId } = this.#options
    const hash = sha256(token)
    const hostId = await transaction(pool, async (tx) => {
      const id = newId()
      if (!(await store.spendInvite(tx, hash, id))) return store.findEnrolled(tx, hash, public_key)
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

  /** Notes what a host says of itself; false where it counts as lost, whose lease is never renewed. */
  async heard(hostId: string, said: HostFacts): Promise<boolean> {
    const { pool, leaseMs, links } = this.#options
    const facts = believable(said)
    if (facts !== said) this.#tellAbsurd(hostId, facts.ailment)
    else this.#absurd.delete(hostId)
    const host = await store.heard(pool, hostId, facts, leaseMs)
    if (host) links.withhold(hostId, host.withheld)
    return host !== undefined
  }

  #tellAbsurd(host: string, why: string | null): void {
    if (this.#absurd.get(host) === why) return
    this.#absurd.set(host, why)
    this.#options.log.error({ host, why, alarm: true }, 'a host says of itself what cannot be; it is given no desktop')
  }

  /** Reserves room on the host that holds the desktop's disk, or on the best one where it has none yet. */
  async place(tx: pg.PoolClient, boundTo: string | null, wish: store.Wish): Promise<string> {
    const { links, vcpusPerProcessor } = this.#options
    const able = (boundTo ? [boundTo] : links.hostIds()).filter((id) => links.takesCommands(id))
    const candidates = await store.candidates(tx, wish.desktopId, able, vcpusPerProcessor)
    // An agent or a control plane that has just been restarted: in a moment the link is there again.
    if (candidates.length === 0 && (await store.heardLately(tx, boundTo)))
      throw refusalWithCause('host_unreachable', 'the host is not linked at the moment')
    const host = boundTo ? insist(candidates[0], wish) : choose(candidates, wish)
    await store.reserve(tx, host.id, wish)
    return host.id
  }

  /**
   * What the host's word about the epoch is good for, in the transaction of the leader: `believed` once; after that, and where
   * it cannot be true, it is `withheld` and gets no commands. `again` is a word that was withheld before.
   */
  async hearEpoch(
    tx: pg.PoolClient,
    { hostId, epoch, credible }: { hostId: string; epoch: number; credible: boolean },
  ): Promise<'believed' | 'withheld' | 'again'> {
    if (credible && (await store.believeEpoch(tx, hostId))) return 'believed'
    return (await store.withhold(tx, hostId, epoch)) ? 'withheld' : 'again'
  }

  /** Its word about the epoch is no higher than what the database knows: it has commands again, if it had none. */
  async acceptEpoch(hostId: string): Promise<void> {
    const { pool, links } = this.#options
    if (!links.takesCommands(hostId) && (await store.release(pool, hostId))) links.withhold(hostId, false)
  }

  /** The one host of that id or name, and the epoch because of which it gets no commands. Its row is held. */
  async lockNamed(tx: pg.PoolClient, idOrName: string): Promise<store.NamedHost & { withheldEpoch: number | null }> {
    const [host, another] = await store.findNamed(tx, idOrName)
    if (another) refuse('conflict', `several hosts are called ${idOrName}; name it by its id`)
    if (!host || host.removedAt) return store.unknown()
    return { ...host, withheldEpoch: await store.lockWithheld(tx, host.id) }
  }

  trust = store.trust
  releaseMemory = store.releaseMemory
  releaseAll = store.releaseAll

  /** Whether the host is gone for good: nothing is waited for there. */
  isRemoved(hostId: string, db: Db = this.#options.pool): Promise<boolean> {
    return store.isRemoved(db, hostId)
  }

  list(): Promise<HostJson[]> {
    const { pool, links, vcpusPerProcessor } = this.#options
    return patiently(() => store.list(pool, vcpusPerProcessor, (id) => links.has(id)))
  }
}

const unnoted: Note = async () => undefined

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
