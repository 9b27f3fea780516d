// Why the service closes the socket of an exec before its end: a code and a cause for programs, a sentence for people. Pure.
import { type AttachNote, attachCloses, type DesktopState, type Refusal } from '@dormouse/contract'

type AttachEndCause = Extract<AttachNote, { end: unknown }>['end']['cause']

export interface Ending {
  code: number
  cause: AttachEndCause
  why: string
}

const { asleep, destroyed, revoked, hostLost, moved, deleted } = attachCloses
const again = 'attach again from the last offset'

const table = {
  asleep: { code: asleep, why: `the desktop is not awake; wake it, then ${again}` },
  destroyed: { code: destroyed, why: 'the desktop was destroyed' },
  revoked: {
    code: revoked,
    why: 'the credential behind this connection was revoked, or no longer reaches the desktop',
  },
  expired: { code: revoked, why: `the credential behind this connection has expired; ${again} with another` },
  hostLost: { code: hostLost, why: `the connection to the exec was lost; ${again}` },
  moved: { code: moved, why: `the desktop has moved to another host; ${again}` },
  deleted: { code: deleted, why: 'the exec was deleted' },
  busy: { code: 1013, why: `too many bytes in flight with this credential; ${again} later` },
} as const satisfies Partial<Record<AttachEndCause, Omit<Ending, 'cause'>>>

export const endings = Object.fromEntries(
  Object.entries(table).map(([cause, ending]) => [cause, { ...ending, cause }]),
) as Record<keyof typeof table, Ending>

/** While a move is in progress: the desktop is reached again on one of its hosts. */
export const moving: Ending = { ...endings.moved, why: `the desktop is moving to another host; ${again}` }

/** The client does not keep to the protocol. */
export const unreadable = (why: string): Ending => ({ code: 1008, cause: 'unreadable', why })

/** Why an exec can no longer be reached on its host; undefined if its desktop is as it was. */
export function endingOf(now: { state: DesktopState; hostId: string | null }, hostId: string): Ending | undefined {
  if (now.state === 'destroying' || now.state === 'destroyed') return endings.destroyed
  // The next request gets the reason of the failure.
  if (now.state === 'failed') return endings.hostLost
  if (now.state !== 'awake') return endings.asleep
  return now.hostId === hostId ? undefined : endings.moved
}

/** What the refusal of one operation means by itself; undefined if the desktop's state shows it. */
export function endingAfter({ code }: Refusal): Ending | undefined {
  if (code === 'exec_unknown') return endings.deleted
  if (code === 'rate_limited') return endings.busy
  if (code === 'not_found') return endings.destroyed
  return undefined
}
