// Where the page stands after its socket closed: what it says, and whether it comes back by itself. Pure.
import { screenCloses } from '@dormouse/contract/screens'

export type PageState =
  | 'connecting'
  | 'live'
  | 'reconnecting'
  | 'taken-over'
  | 'asleep'
  | 'destroyed'
  | 'ended'
  | 'lost'

export interface Course {
  state: PageState
  /** Wait so long and open it again; absent where that would be of no use. */
  againInMs?: number
}

export interface Closed {
  code: number
  /** How long the page has had no picture. */
  darkForMs: number
  /** How many times in a row it has been opened in vain. */
  attempts: number
  /** Whether the page has anything left to open it with. */
  hasTicket: boolean
}

/** Nobody waits longer for a way that broke. */
const patienceMs = 5 * 60_000
const lookAgainMs = 2_000

export function courseAfter({ code, darkForMs, attempts, hasTicket }: Closed): Course {
  if (code === screenCloses.takenOver) return { state: 'taken-over' }
  if (code === screenCloses.destroyed) return { state: 'destroyed' }
  if (code === screenCloses.revoked || !hasTicket) return { state: 'ended' }
  if (code === screenCloses.asleep) return { state: 'asleep', againInMs: lookAgainMs }
  if (darkForMs > patienceMs) return { state: 'lost' }
  return { state: 'reconnecting', againInMs: Math.min(250 * 2 ** attempts, 4_000) }
}

export interface Words {
  short: string
  title?: string
  text?: string
  todo?: string
}

/** What the page says in each state. */
export const words: Record<PageState, Words> = {
  connecting: { short: 'Connecting…' },
  live: { short: 'Live' },
  reconnecting: {
    short: 'Reconnecting…',
    title: 'Reconnecting…',
    text: 'The connection to the desktop broke. Nothing is lost there.',
  },
  'taken-over': {
    short: 'Taken over',
    title: 'Taken over',
    text: 'Another client holds this claim now, or you opened the screen elsewhere.',
    todo: 'To have it back, ask for a new link with takeover.',
  },
  asleep: {
    short: 'Asleep',
    title: 'The desktop is not awake',
    text: 'It hibernates, or it was switched off. What it holds is kept.',
    todo: 'Wake it, and this page comes back by itself: dormouse wake {id}',
  },
  destroyed: { short: 'Destroyed', title: 'The desktop was destroyed', text: 'There is nothing left to show.' },
  ended: {
    short: 'Ended',
    title: 'This link opens nothing any more',
    text: 'It was used, its time is over, or its credential was revoked.',
    todo: 'Ask for a new link.',
  },
  lost: {
    short: 'Lost',
    title: 'The desktop cannot be reached',
    text: 'Its host or the service did not answer for minutes.',
    todo: 'Ask for a new link later.',
  },
}
