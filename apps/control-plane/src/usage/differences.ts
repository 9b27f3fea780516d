// The differences between the ledger and the hosts on what runs. Pure; repairs nothing.
import type { Living } from '../ledger/store.ts'

export interface Difference extends Living {
  hostId: string
  /** unbooked: the host runs it and the ledger does not count it. unproved: the ledger counts it and the host does not run it. */
  what: 'unbooked' | 'unproved'
}

/** Compares what hosts report as running with what the ledger counts as awake on them. */
export function differences(
  said: ReadonlyMap<string, readonly Living[]>,
  booked: readonly (Living & { hostId: string })[],
): Difference[] {
  const running = [...said].flatMap(([hostId, living]) => living.map((one) => ({ ...one, hostId })))
  return [
    ...missingFrom(booked, running).map((one) => ({ ...one, what: 'unbooked' as const })),
    ...missingFrom(running, booked).map((one) => ({ ...one, what: 'unproved' as const })),
  ]
}

function missingFrom(present: readonly Place[], wanted: readonly Place[]): Place[] {
  const names = new Set(present.map(placeName))
  return wanted.filter((one) => !names.has(placeName(one)))
}

type Place = Living & { hostId: string }

const placeName = ({ hostId, desktopId, generation }: Place): string => `${hostId} ${desktopId} ${generation}`

export const nameOf = (difference: Difference): string => `${difference.what} ${placeName(difference)}`
