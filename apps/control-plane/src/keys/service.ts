// Keys that customers make for each other: a key makes only keys that may do no more than itself. Knows no HTTP.
import {
  type CreatedOwnKeyJson,
  type OwnKeyJson,
  type Right,
  refuseNotFound,
  type Selector,
  selectorText,
} from '@dormouse/contract'
import * as audit from '../audit/store.ts'
import type { Note } from '../db/pool.ts'
import type { Desktops } from '../desktops/service.ts'
import { notAllowed, requireRight } from '../principals/rights.ts'
import { isWithin, type Scope } from '../principals/scope.ts'
import type { Customer, Principals } from '../principals/service.ts'

export interface KeysOptions {
  principals: Pick<Principals, 'createOwnKey' | 'listOwnKeys' | 'revokeOwnKey'>
  desktops: Pick<Desktops, 'get'>
}

export interface KeyWish {
  name: string
  can: readonly Right[]
  selector: Selector | null
  desktopId: string | null
  validSecs: number | null
}

export class Keys {
  readonly #options: KeysOptions

  constructor(options: KeysOptions) {
    this.#options = options
  }

  async create(caller: Customer, { name, can, selector, desktopId, validSecs }: KeyWish): Promise<CreatedOwnKeyJson> {
    for (const right of can) requireRight(caller, right)
    const scope = desktopId !== null ? { desktopId } : selector && { selector }
    // A desktop's labels may change, so no selector holds for a key of one desktop.
    if (!isWithin(scope, caller.scope)) throw notAllowed('admin', whyNot(caller.scope!))
    if (desktopId !== null) await this.#requireThere(caller, desktopId)
    return this.#options.principals.createOwnKey(caller, { name, can, scope, validSecs }, noteOf(caller, 'key.create'))
  }

  list(caller: Customer): Promise<OwnKeyJson[]> {
    return this.#options.principals.listOwnKeys(caller)
  }

  revoke(caller: Customer, id: string): Promise<void> {
    return this.#options.principals.revokeOwnKey(caller, id, noteOf(caller, 'key.revoke'))
  }

  async #requireThere(caller: Customer, desktopId: string): Promise<void> {
    const { state } = await this.#options.desktops.get(caller, desktopId)
    if (state === 'destroyed') refuseNotFound()
  }
}

const whyNot = ({ selector }: Scope): string =>
  selector
    ? `the selector of the key must hold every term of the credential’s, \`${selectorText(selector)}\``
    : 'the credential is for one desktop, and makes keys for that desktop only'

const noteOf =
  ({ orgId, subject }: Customer, action: string): Note =>
  (tx, id, details) =>
    audit.recordOfOrg(tx, orgId, { actor: subject ?? `jwt-of:${orgId}`, action, subject: id, details: details ?? {} })
