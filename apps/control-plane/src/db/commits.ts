// Notifies this process when one of its transactions has committed. Knows no table.
import type { Pool } from './pool.ts'

const listeners = new WeakMap<Pool, Set<() => void>>()

/** Calls back after each commit of a transaction on this pool that may have written. The listener must not throw. */
export function onCommit(pool: Pool, listener: () => void): void {
  const known = listeners.get(pool) ?? new Set()
  known.add(listener)
  listeners.set(pool, known)
}

export function noteCommit(pool: Pool): void {
  for (const listener of listeners.get(pool) ?? []) listener()
}
