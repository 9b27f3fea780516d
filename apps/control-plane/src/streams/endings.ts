// Why a screen's socket is closed, and what it says then: a code for programs, one sentence for people. Pure.
import type { DesktopState } from '@dormouse/contract'
import { screenCloses, wakingReason } from '@dormouse/contract'

export interface Ending {
  code: number
  reason: string
}

const ending = (name: keyof typeof screenCloses, reason: string): Ending => ({ code: screenCloses[name], reason })

export const endings = {
  takenOver: ending('takenOver', 'another client took the claim, or its holder opened it elsewhere'),
  asleep: ending('asleep', 'the desktop is not awake; wake it'),
  waking: ending('asleep', wakingReason),
  restarted: ending('hostLost', 'the desktop was started anew; open it again'),
  destroyed: ending('destroyed', 'the desktop was destroyed'),
  revoked: ending('revoked', 'the credential behind this screen was revoked'),
  expired: ending('revoked', 'the access token behind this screen has expired; ask for a new URL with another'),
  spent: ending('revoked', 'this token was used, has expired, or is not for this screen; ask for a new URL'),
  graceOver: ending('revoked', 'the claim was let go meanwhile; ask for a new URL'),
  hostLost: ending('hostLost', 'the way to the desktop’s screen broke; open it again'),
  hostRemoved: ending('hostLost', 'the desktop’s host was removed for good'),
  unfollowed: { code: 1011, reason: 'the screen said what a viewer cannot be shown' },
  unreadable: { code: 1008, reason: 'the client said what no screen understands' },
} as const satisfies Record<string, Ending>

/** Why nobody may look at a desktop in this state and generation; undefined where it may be looked at. */
export function endingOf(now: { state: DesktopState; generation: number }, generation: number): Ending | undefined {
  if (now.state === 'destroying' || now.state === 'destroyed') return endings.destroyed
  if (now.state === 'waking') return endings.waking
  if (now.state === 'failed') return endings.hostRemoved
  if (now.state !== 'awake') return endings.asleep
  return now.generation === generation ? undefined : endings.restarted
}
