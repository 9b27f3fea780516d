// Quotas by selector: sets, shows and deletes them. Knows no HTTP.
import {
  type OwnQuotasJson,
  type QuotaJson,
  quotasMax,
  refuse,
  selectorText,
  type setQuotaBody,
} from '@dormouse/contract'
import type { z } from 'zod'
import { type Note, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import { type Reach, wholeOrg } from '../principals/scope.ts'
import { unknownOrg } from '../principals/service.ts'
import * as store from './store.ts'

export class Quotas {
  readonly #pool: Pool
  readonly #maxDesktopsPerOrg: number

  constructor(pool: Pool, maxDesktopsPerOrg: number) {
    this.#pool = pool
    this.#maxDesktopsPerOrg = maxDesktopsPerOrg
  }

  /** Sets a quota, new or not. Idempotent. Desktops that it selects already stay. */
  set(orgId: string, name: string, body: z.output<typeof setQuotaBody>, note: Note): Promise<QuotaJson> {
    return transaction(this.#pool, async (tx) => {
      if (!(await store.lockOrg(tx, orgId))) unknownOrg()
      const quotas = await store.list(tx, orgId)
      const before = quotas.find((one) => one.name === name)
      if (!before && quotas.length >= quotasMax)
        refuse('conflict', `the organisation has ${quotasMax} quotas; remove one first`)
      const quota = { name, selector: body.select, maxDesktops: body.max_desktops }
      await store.put(tx, orgId, quota)
      const { each } = await store.count(tx, wholeOrg(orgId), [quota])
      const isSame = before && isEqual(before, quota)
      await note(tx, orgId, isSame ? null : { name, ...termsOf(quota), before: before ? termsOf(before) : null })
      return quotaToJson(quota, each[0]!)
    })
  }

  async list(orgId: string): Promise<QuotaJson[]> {
    return (await this.show(wholeOrg(orgId))).quotas
  }

  /** The limits, and how many of the caller's desktops count. */
  show(caller: Reach): Promise<OwnQuotasJson> {
    const { orgId } = caller
    return retryWhileUnavailable(async () => {
      const quotas = await store.list(this.#pool, orgId)
      const [max, { all, each }] = await Promise.all([
        store.maxOf(this.#pool, orgId, this.#maxDesktopsPerOrg),
        store.count(this.#pool, caller, quotas),
      ])
      return {
        max_desktops: max ?? unknownOrg(),
        desktops: all,
        quotas: quotas.map((quota, at) => quotaToJson(quota, each[at]!)),
      }
    })
  }

  remove(orgId: string, name: string, note: Note): Promise<void> {
    return transaction(this.#pool, async (tx) => {
      if (!(await store.lockOrg(tx, orgId))) unknownOrg()
      const removed = (await store.remove(tx, orgId, name)) ?? unknownQuota()
      await note(tx, orgId, { name, ...termsOf(removed) })
    })
  }
}

const termsOf = ({ selector, maxDesktops }: store.Quota) => ({
  select: selectorText(selector),
  max_desktops: maxDesktops,
})

const isEqual = (one: store.Quota, other: store.Quota): boolean =>
  one.maxDesktops === other.maxDesktops && selectorText(one.selector) === selectorText(other.selector)

const quotaToJson = (quota: store.Quota, desktops: number): QuotaJson => ({
  name: quota.name,
  ...termsOf(quota),
  desktops,
})

const unknownQuota = () => refuse('not_found', 'there is no such quota; `dormouse admin org quotas <id>` lists them')
