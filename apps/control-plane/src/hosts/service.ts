// Hosts: how one is invited, enrols, proves itself, is heard of, and lends its room. Knows no desktop but by id.
import { createHash, randomBytes } from 'node:crypto'
import {
  type EnrolBody,
  type EnrolledJson,
  type HostFacts,
  type HostJson,
  type InviteJson,
  newId,
  refuse,
} from '@dormouse/contract'
import type pg from 'pg'
import type { Links } from '../agents/links.ts'
import { type Db, type Note, type Pool, patiently, transaction } from '../db/pool.ts'
import { choose, insist } from './placement.ts'
import * as store from './store.ts'

const invitePrefix = 'dormouse_invite_'
const defaultInviteSecs = 86_400

export interface HostsOptions {
  pool: Pool
  links: Links
  installationId: string
  leaseMs: number
}

export class Hosts {
  readonly #options: HostsOptions

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

  /** Notes a heartbeat; false where the host counts as lost, whose lease is never renewed. */
  heard(hostId: string, facts: HostFacts): Promise<boolean> {
    return store.heard(this.#options.pool, hostId, facts, this.#options.leaseMs)
  }

  /** Reserves room on the host that holds the desktop's disk, or on the best one where it has none yet. */
  async place(tx: pg.PoolClient, boundTo: string | null, wish: store.Wish): Promise<string> {
    const { links } = this.#options
    const linked = boundTo ? [boundTo].filter((id) => links.has(id)) : links.hostIds()
    const candidates = await store.candidates(tx, wish.desktopId, linked)
    // An agent or a control plane that has just been restarted: in a moment the link is there again.
    if (candidates.length === 0 && (await store.heardLately(tx, boundTo)))
      refuse('host_unreachable', 'The host is not linked at the moment; try again when it is back.')
    const host = boundTo ? insist(candidates[0], wish) : choose(candidates, wish)
    await store.reserve(tx, host.id, wish)
    return host.id
  }

  releaseMemory = store.releaseMemory
  releaseAll = store.releaseAll

  /** Whether the host is gone for good: nothing is waited for there. */
  isRemoved(hostId: string, db: Db = this.#options.pool): Promise<boolean> {
    return store.isRemoved(db, hostId)
  }

  list(): Promise<HostJson[]> {
    return patiently(() => store.list(this.#options.pool, (id) => this.#options.links.has(id)))
  }
}

const unnoted: Note = async () => undefined

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
