// Where the page stands after its socket closed: what it says, and whether it comes back by itself. Pure.
import { screenCloses, wakingReason } from '@dormouse/contract/screens'

export type PageState =
  | 'connecting'
  | 'live'
  | 'reconnecting'
  | 'taken-over'
  | 'asleep'
  | 'waking'
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
  reason: string
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
const lookForItMs = 500

export function courseAfter({ code, reason, darkForMs, attempts, hasTicket }: Closed): Course {
  if (code === screenCloses.takenOver) return { state: 'taken-over' }
  if (code === screenCloses.destroyed) return { state: 'destroyed' }
  if (code === screenCloses.revoked || !hasTicket) return { state: 'ended' }
  if (code === screenCloses.asleep && reason === wakingReason) return { state: 'waking', againInMs: lookForItMs }
  if (code === screenCloses.asleep) return { state: 'asleep', againInMs: lookAgainMs }
  if (darkForMs > patienceMs) return { state: 'lost' }
  return { state: 'reconnecting', againInMs: Math.min(250 * 2 ** attempts, 4_000) }
}

/** What the page says of a state. */
export interface Words {
  short: string
  title: string
  text: string
  todo: string
  /** To be typed in a terminal. */
  command: string
}

const words: Record<PageState, Partial<Words> & { short: string }> = {
  connecting: { short: 'Connecting…', title: 'Connecting…' },
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
    todo: 'To have it back, take it over in turn:',
    command: 'dormouse open {id} --takeover{view}',
  },
  asleep: {
    short: 'Asleep',
    title: 'The desktop is not awake',
    text: 'It hibernates, or it was switched off. What it holds is kept.',
    todo: 'Wake it, and this page comes back by itself:',
    command: 'dormouse wake {id}',
  },
  waking: {
    short: 'Waking…',
    title: 'The desktop is waking',
    text: 'It is shown here as soon as it is there.',
  },
  destroyed: { short: 'Destroyed', title: 'The desktop was destroyed', text: 'There is nothing left to show.' },
  ended: {
    short: 'Ended',
    title: 'This link opens nothing any more',
    text: 'It was used, its time is over, or its credential was revoked.',
    todo: 'Ask for a new link:',
    command: 'dormouse open {id}{view}',
  },
  lost: {
    short: 'Lost',
    title: 'The desktop cannot be reached',
    text: 'Its host or the service did not answer for minutes.',
    todo: 'Look how it is, and ask for a new link then:',
    command: 'dormouse get {id}',
  },
}

export interface Occasion {
  desktopId: string
  claim: 'view' | 'control'
  /** What the service said when it closed the socket, if anything. */
  reason: string
}

/** What the page says in each state. Why a link ended, the service knows best. */
export function wordsOf(state: PageState, { desktopId, claim, reason }: Occasion): Words {
  const { short, title = '', text = '', todo = '', command = '' } = words[state]
  return {
    short,
    title,
    text: state === 'ended' && reason !== '' ? asSentence(reason) : text,
    todo,
    command: command.replace('{id}', desktopId).replace('{view}', claim === 'view' ? ' --view' : ''),
  }
}

/** The services' reasons end with what is to be done, which the page says in its own words. */
const asSentence = (reason: string): string => {
  const [why = ''] = reason.split('; ')
  return `${why.charAt(0).toUpperCase()}${why.slice(1)}.`
}
