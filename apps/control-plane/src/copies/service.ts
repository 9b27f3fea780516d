// Copies as customers see them, and the policies by which they are made.
import {
  type CopyJson,
  type CopyPolicyJson,
  copyPoliciesMax,
  type DesktopId,
  refuse,
  refuseNotFound,
} from '@dormouse/contract'
import type { Pool } from '../db/pool.ts'
import { retryWhileUnavailable } from '../db/pool.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { notAllowed } from '../principals/rights.ts'
import { isWithin, type Scope, scopeIn } from '../principals/scope.ts'
import type { Customer } from '../principals/service.ts'
import * as store from './store.ts'

export interface CopiesOptions {
  pool: Pool
  leadership: Leadership
  desktops: Pick<Desktops, 'show'>
}

export class Copies {
  readonly #options: CopiesOptions

  constructor(options: CopiesOptions) {
    this.#options = options
  }

  /** Newest first. */
  async list(caller: Customer, desktopId: DesktopId): Promise<CopyJson[]> {
    await this.#options.desktops.show(caller, desktopId)
    return retryWhileUnavailable(() => store.list(this.#options.pool, desktopId))
  }

  /** Those that are for no other desktops than the caller's. */
  async policies({ orgId, scope }: Customer): Promise<CopyPolicyJson[]> {
    const all = await retryWhileUnavailable(() => store.policiesOf(this.#options.pool, orgId))
    return all.filter((policy) => isReached(scope, policy))
  }

  async putPolicy({ orgId, scope }: Customer, policy: CopyPolicyJson): Promise<CopyPolicyJson> {
    if (!isReached(scope, policy))
      throw notAllowed('admin', 'the policy’s `select` must hold every term of the credential’s selector')
    await this.#options.leadership.transaction(async (tx) => {
      const before = (await store.policiesOf(tx, orgId)).find(({ name }) => name === policy.name)
      if (before && !isReached(scope, before)) refuse('conflict', 'another policy has this name; choose another')
      if (!(await store.putPolicy(tx, orgId, policy, copyPoliciesMax)))
        refuse('conflict', `the organisation has ${copyPoliciesMax} policies of copies; remove one first`)
      await store.lookAgain(tx, orgId)
    })
    return policy
  }

  async removePolicy({ orgId, scope }: Customer, name: string): Promise<void> {
    await this.#options.leadership.transaction(async (tx) => {
      const policy = (await store.policiesOf(tx, orgId)).find((one) => one.name === name)
      if (!policy || !isReached(scope, policy)) refuseNotFound()
      await store.removePolicy(tx, orgId, name)
      await store.lookAgain(tx, orgId)
    })
  }
}

const isReached = (scope: Scope | null, { select }: Pick<CopyPolicyJson, 'select'>): boolean =>
  isWithin(scopeIn({ selector: select, desktopId: null }), scope)
