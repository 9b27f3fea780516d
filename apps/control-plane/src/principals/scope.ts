// Which desktops of its organisation a credential reaches. Pure.
import { holdsEveryTerm, type Labels, matches, parseSelector, type Selector, selectorText } from '@dormouse/contract'
import { selected } from '../db/selection.ts'

/** Those that the selector selects, or one. */
export type Scope = { selector: Selector; desktopId?: never } | { desktopId: string; selector?: never }

/** Whose desktops, and which of them; null: all. */
export interface Reach {
  orgId: string
  scope: Scope | null
}

/** A scope in columns; both are null for all desktops. */
export interface StoredScope {
  selector: string | null
  desktopId: string | null
}

export const storedScope = (scope: Scope | null): StoredScope => ({
  selector: scope?.selector ? selectorText(scope.selector) : null,
  desktopId: scope?.desktopId ?? null,
})

export function scopeIn({ selector, desktopId }: StoredScope): Scope | null {
  if (desktopId !== null) return { desktopId }
  return selector === null ? null : { selector: parseSelector(selector) }
}

/** For work of the service itself. */
export const wholeOrg = (orgId: string): Reach => ({ orgId, scope: null })

/** Whether the desktop is one of these. */
export function admits(scope: Scope | null, { id, labels }: { id: string; labels: Labels }): boolean {
  if (scope === null) return true
  return scope.selector ? matches(scope.selector, labels) : scope.desktopId === id
}

/** The same of a row of desktops, as a condition of SQL. `value` adds a parameter and returns its name. */
export function admittedBy(scope: Scope | null, desktops: string, value: (given: unknown) => string): string {
  if (scope === null) return 'true'
  return scope.selector
    ? selected(scope.selector, `${desktops}.labels`, value)
    : `${desktops}.id = ${value(scope.desktopId)}`
}

/** Whether a scope leaves out everything that the other leaves out, whatever the labels of desktops are or become. */
export function isWithin(inner: Scope | null, outer: Scope | null): boolean {
  if (outer === null) return true
  if (inner === null) return false
  if (outer.selector) return inner.selector !== undefined && holdsEveryTerm(inner.selector, outer.selector)
  return inner.desktopId === outer.desktopId
}

export interface Choice {
  /** Null: all. */
  selector: Selector | null
  desktopId: string | null
}

/** What both the request and the scope select. Undefined if that is nothing, whatever the labels are. */
export function chosen(scope: Scope | null, { selector, desktopId }: Choice): Choice | undefined {
  if (scope === null) return { selector, desktopId }
  if (scope.selector) return { selector: [...scope.selector, ...(selector ?? [])], desktopId }
  return desktopId === null || desktopId === scope.desktopId ? { selector, desktopId: scope.desktopId } : undefined
}
