// What a credential that is limited to some desktops may list, create and change. Pure.
import { type Labels, selectorText } from '@dormouse/contract'
import { notAllowed } from '../principals/rights.ts'
import { admits, chosen, type Reach, type Scope } from '../principals/scope.ts'
import type { ListParams } from './shown.ts'

export type ListWish = Omit<ListParams, 'orgId' | 'only' | 'limit'>

/** The list of what the caller reaches. */
export function reached({ orgId, scope }: Reach, params: ListWish & { limit: number | null }): ListParams {
  const { selector, desktopId: only } = chosen(scope, { selector: params.selector, desktopId: null })!
  return { ...params, orgId, selector, only }
}

/** A desktop that would not exist for its own caller is not made, and none becomes one. */
export function requireWithin(scope: Scope | null, desktop: { id?: string; labels?: Labels | null | undefined }): void {
  if (scope === null || admits(scope, { id: desktop.id ?? '', labels: desktop.labels ?? {} })) return
  const why = scope.selector
    ? `the desktop’s labels must match the credential’s selector, \`${selectorText(scope.selector)}\``
    : 'the credential is for one desktop, and creates no others'
  throw notAllowed(desktop.id === undefined ? 'create' : 'admin', why)
}

/** An Idempotency-Key belongs to the organisation. */
export const keyOfAnother =
  'the Idempotency-Key was used for a desktop that does not exist for this credential; send another key'
