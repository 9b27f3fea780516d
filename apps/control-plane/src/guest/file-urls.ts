// URLs that are handed on: each opens one file of a desktop to a client without a credential. A use is counted in the
// database before its first byte, so that no crash and no second replica can repeat it.
import { timingSafeEqual } from 'node:crypto'
import {
  type CreateFileUrlBody,
  type FileUrlJson,
  type FileUrlMethod,
  fileUrlsListed,
  fileUrlsMax,
  fileUrlUsesMax,
  fileWriteMaxBytes,
  isId,
  newId,
  refusals,
  refuse,
  refuseNotFound,
} from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import * as audit from '../audit/store.ts'
import { CommitUnknown, isDatabaseUnavailable, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import type { Desktops } from '../desktops/service.ts'
import * as desktopStore from '../desktops/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { hashOf, makeToken, tokenForm } from '../principals/random-tokens.ts'
import type { Customer, Principals } from '../principals/service.ts'
import type { FileUrlRow } from './file-url-store.ts'
import * as store from './file-url-store.ts'

interface FileUrlsOptions {
  pool: Pool
  leadership: Leadership
  principals: Principals
  desktops: Desktops
  failpoints: Failpoints
  log: Log
}

export type FileUrlParams = Omit<CreateFileUrlBody, 'expires_in_secs'> & { expires_in_secs: number }

const checkEveryMs = 1_000

export class FileUrls {
  readonly #options: FileUrlsOptions
  /** Transfers in progress of this replica, by their URL. */
  readonly #transfers = new Map<string, { madeBy: string; desktopId: string; ends: Set<AbortController> }>()
  #watching: NodeJS.Timeout | undefined

  constructor(options: FileUrlsOptions) {
    this.#options = options
  }

  /** Makes a URL. Its token is returned here only. */
  async create(
    caller: Customer,
    desktopId: string,
    params: FileUrlParams,
  ): Promise<{ made: FileUrlJson; token: string }> {
    const madeBy = caller.subject ?? refuse('forbidden', 'this route needs a token with a `sub` claim')
    const { path, method, once } = params
    const maxBytes = params.max_bytes ?? (method === 'PUT' ? fileWriteMaxBytes : null)
    const { token, hash } = makeToken()
    const url = {
      id: newId(),
      orgId: caller.orgId,
      desktopId,
      path,
      method,
      maxBytes,
      once: once ?? false,
      hash,
      madeBy,
    }
    const leftMs = caller.goodUntil === null ? Infinity : Math.max(0, Math.round(caller.goodUntil - Date.now()))
    const row = await this.#options.leadership.transaction(async (tx) => {
      const desktop = (await desktopStore.lock(tx, caller, desktopId)) ?? refuseNotFound()
      const { state } = desktop
      if (isGone(state)) refuse('wrong_state', `the desktop is ${state}; create another`, { state })
      if ((await store.countLive(tx, desktopId)) >= fileUrlsMax)
        refuse('conflict', `the desktop has ${fileUrlsMax} active URLs, which is the limit; revoke some`)
      const made = await store.insert(tx, url, Math.min(params.expires_in_secs * 1_000, leftMs))
      const details = { id: url.id, method, once: url.once, expires_at: made.expiresAt.toISOString() }
      await audit.recordOfCustomer(tx, { actor: madeBy, action: 'file-url.create', subject: desktopId, details })
      return made
    })
    return { made: toJson(row, new Set()), token }
  }

  async list(caller: Customer, desktopId: string): Promise<FileUrlJson[]> {
    const { pool, principals, desktops } = this.#options
    await desktops.get(caller, desktopId)
    return retryWhileUnavailable(async () => {
      const rows = await store.list(pool, desktopId, fileUrlsListed)
      const withdrawn = await principals.withdrawn([...new Set(rows.map(({ madeBy }) => madeBy))])
      return rows.map((row) => toJson(row, withdrawn))
    })
  }

  /** It opens nothing from now on, and transfers in progress end within seconds. */
  async revoke(caller: Customer, desktopId: string, id: string): Promise<void> {
    await this.#options.leadership.transaction(async (tx) => {
      if (!(await desktopStore.lock(tx, caller, desktopId))) refuseNotFound()
      if (!(await store.revoke(tx, desktopId, id))) refuseNotFound()
      const actor = caller.subject ?? `jwt-of:${caller.orgId}`
      await audit.recordOfCustomer(tx, { actor, action: 'file-url.revoke', subject: desktopId, details: { id } })
    })
    this.#end([id])
  }

  /** The URL that the token opens now. Counts nothing. Without the whole token, a client learns nothing about it. */
  async open(id: string, token: string): Promise<FileUrlRow> {
    if (!isId(id) || !tokenForm.test(token)) return refuseNotFound()
    const row = await retryWhileUnavailable(() => store.find(this.#options.pool, id))
    const given = hashOf(token)
    if (!timingSafeEqual(row?.hash ?? Buffer.alloc(given.length), given) || !row) return refuseNotFound()
    const { madeBy, desktopId, desktopLabels: labels } = row
    const isLost = !(await this.#options.principals.standing([madeBy])).reaches(madeBy, { id: desktopId, labels })
    const why = whyEnded(row, new Set(isLost ? [madeBy] : []))
    if (why) gone(why)
    if (isGone(row.desktopState)) gone('is for a desktop that was destroyed')
    return row
  }

  /**
   * Counts a use, before its first byte. If two requests at once have the same URL for one use, one of them gets `url_gone`.
   */
  async spend({ id, desktopId, madeBy, method }: FileUrlRow, address: string): Promise<void> {
    const { pool, principals, failpoints } = this.#options
    try {
      await transaction(pool, async (tx) => {
        if (!(await store.spend(tx, id, fileUrlUsesMax))) gone('was used, revoked or has expired meanwhile')
        if ((await principals.withdrawn([madeBy], tx)).size > 0) gone(endedBy.revoked)
        const details = { id, method, address }
        await audit.recordOfCustomer(tx, {
          actor: `file-url:${id}`,
          action: 'file-url.use',
          subject: desktopId,
          details,
        })
      })
    } catch (error) {
      if (isDatabaseUnavailable(error) && !(error instanceof CommitUnknown)) refuse('database_unavailable')
      throw error
    }
    await failpoints.hit('file-url.spent')
  }

  /** A transfer begins: the signal aborts it when its URL is revoked. `end` must be called when it is over. */
  begin({ id, madeBy, desktopId }: FileUrlRow): { signal: AbortSignal; end: () => void } {
    const controller = new AbortController()
    const transfers = this.#transfers.get(id) ?? { madeBy, desktopId, ends: new Set() }
    transfers.ends.add(controller)
    this.#transfers.set(id, transfers)
    this.#watching ??= setInterval(() => void this.check(), checkEveryMs).unref()
    const end = () => {
      if (!transfers.ends.delete(controller) || transfers.ends.size > 0) return
      this.#transfers.delete(id)
      if (this.#transfers.size > 0) return
      clearInterval(this.#watching)
      this.#watching = undefined
    }
    return { signal: controller.signal, end }
  }

  /** Ends the transfers whose URL, or whose maker's key, was revoked at any replica, or whose maker lost the desktop. */
  async check(): Promise<void> {
    const { pool, principals, desktops, log } = this.#options
    const open = [...this.#transfers]
    try {
      const revoked = await store.revokedAmong(
        pool,
        open.map(([id]) => id),
      )
      const standing = await principals.standing(open.map(([, { madeBy }]) => madeBy))
      const labels = await desktops.labelsOf(open.map(([, { desktopId }]) => desktopId))
      const lost = open.filter(
        ([, { madeBy, desktopId: id }]) => !standing.reaches(madeBy, { id, labels: labels.get(id) ?? {} }),
      )
      this.#end([...revoked, ...lost.map(([id]) => id)])
    } catch (err) {
      log.debug({ err }, 'the URLs of transfers could not be checked; retrying')
    }
  }

  #end(ids: string[]): void {
    for (const id of ids) for (const one of this.#transfers.get(id)?.ends ?? []) one.abort()
  }
}

const isGone = (state: string): boolean => ['destroying', 'destroyed', 'failed'].includes(state)

const endedBy = {
  revoked: 'was revoked, or the credential that made it, or that no longer reaches the desktop',
  used: 'was used as often as it may be',
  expired: 'has expired',
} as const

const gone = (why: string): never => refuse('url_gone', refusals.url_gone.detail({ why }))

function stateOf({ once, uses, isRevoked, isExpired, madeBy }: FileUrlRow, withdrawn: ReadonlySet<string>) {
  if (isRevoked || withdrawn.has(madeBy)) return 'revoked'
  if (uses >= (once ? 1 : fileUrlUsesMax)) return 'used'
  return isExpired ? 'expired' : 'active'
}

function whyEnded(row: FileUrlRow, withdrawn: ReadonlySet<string>): string | undefined {
  const state = stateOf(row, withdrawn)
  return state === 'active' ? undefined : endedBy[state]
}

const toJson = (row: FileUrlRow, withdrawn: ReadonlySet<string>): FileUrlJson => ({
  id: row.id,
  path: row.path,
  method: row.method as FileUrlMethod,
  max_bytes: row.maxBytes,
  once: row.once,
  state: stateOf(row, withdrawn),
  made_by: row.madeBy,
  created_at: row.createdAt.toISOString(),
  expires_at: row.expiresAt.toISOString(),
  uses: row.uses,
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
})
