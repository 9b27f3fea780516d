// Why the service closes a screen's socket: a close code and a cause for programs, a sentence for people. Pure.
import type { DesktopState, ScreenEndCause } from '@dormouse/contract'
import { screenCloses } from '@dormouse/contract'

export interface Ending {
  code: number
  cause: ScreenEndCause
  why: string
  /** What to do. Programs get it in the close reason; the page has its own words. */
  next?: string
}

const { takenOver, asleep, destroyed, revoked, hostLost, moved } = screenCloses
const newUrl = 'ask for a new URL'

const table = {
  takenOver: { code: takenOver, why: 'another client took the claim, or its holder opened it elsewhere' },
  asleep: { code: asleep, why: 'the desktop is not awake', next: 'wake it' },
  waking: { code: asleep, why: 'the desktop is waking', next: 'open it again in a moment' },
  restarted: { code: hostLost, why: 'the desktop was restarted', next: 'open it again' },
  destroyed: { code: destroyed, why: 'the desktop was destroyed' },
  revoked: { code: revoked, why: 'the credential behind this screen was revoked, or no longer reaches the desktop' },
  expired: {
    code: revoked,
    why: 'the credential behind this screen has expired',
    next: `${newUrl} with another one`,
  },
  spent: { code: revoked, why: 'this link was used, has expired, or is for another screen', next: newUrl },
  graceOver: { code: revoked, why: 'the claim was released meanwhile', next: newUrl },
  hostLost: { code: hostLost, why: 'the connection to the desktop’s screen was lost', next: 'open it again' },
  hostRemoved: { code: hostLost, why: 'the desktop’s host was removed for good' },
  moved: { code: moved, why: 'the desktop has moved to another host', next: 'open it again' },
  unfollowed: { code: 1011, why: 'the screen sent a message that viewers cannot be shown' },
  unreadable: { code: 1008, why: 'the client sent a message that is not valid RFB' },
} as const satisfies Record<ScreenEndCause, Omit<Ending, 'cause'>>

export const endings = Object.fromEntries(
  Object.entries(table).map(([cause, ending]) => [cause, { ...ending, cause }]),
) as Record<ScreenEndCause, Ending>

/** Why a screen that was opened on that host ends; undefined if it goes on. */
export function endingOn(
  now: { state: DesktopState; generation: number; hostId: string | null },
  opened: { generation: number; hostId: string },
): Ending | undefined {
  return endingOf(now, opened.generation) ?? (now.hostId === opened.hostId ? undefined : endings.moved)
}

/** Why no client may see a desktop in this state and generation; undefined if clients may. */
export function endingOf(now: { state: DesktopState; generation: number }, generation: number): Ending | undefined {
  if (now.state === 'destroying' || now.state === 'destroyed') return endings.destroyed
  if (now.state === 'waking') return endings.waking
  if (now.state === 'failed') return endings.hostRemoved
  if (now.state !== 'awake') return endings.asleep
  return now.generation === generation ? undefined : endings.restarted
}
