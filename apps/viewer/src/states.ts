// The page's states: which one follows when its socket closes, whether it reconnects, and what it shows. Pure.
import { type ScreenEndCause, screenCloses } from '@dormouse/contract/screens'

export type PageState =
  | 'connecting'
  | 'live'
  | 'reconnecting'
  | 'moved'
  | 'taken-over'
  | 'asleep'
  | 'waking'
  | 'destroyed'
  | 'ended'
  | 'lost'

export interface NextState {
  state: PageState
  /** Reconnect after this long; absent if that would be useless. */
  reconnectInMs?: number
}

export interface Closed {
  code: number
  /** From the service's last note; undefined if the connection broke. */
  cause: ScreenEndCause | undefined
  /** How long the page has had no picture. */
  darkForMs: number
  /** Failed attempts in a row. */
  attempts: number
  /** Whether the page still has a ticket to reconnect with. */
  hasTicket: boolean
}

const giveUpAfterMs = 5 * 60_000
const asleepRetryMs = 2_000
const wakingRetryMs = 500
const movedRetryMs = 100

export function stateAfter({ code, cause, darkForMs, attempts, hasTicket }: Closed): NextState {
  if (code === screenCloses.takenOver) return { state: 'taken-over' }
  if (code === screenCloses.destroyed) return { state: 'destroyed' }
  if (code === screenCloses.revoked || !hasTicket) return { state: 'ended' }
  if (cause === 'waking') return { state: 'waking', reconnectInMs: wakingRetryMs }
  if (code === screenCloses.asleep) return { state: 'asleep', reconnectInMs: asleepRetryMs }
  if (code === screenCloses.moved) return { state: 'moved', reconnectInMs: movedRetryMs }
  if (darkForMs > giveUpAfterMs) return { state: 'lost' }
  return { state: 'reconnecting', reconnectInMs: Math.min(250 * 2 ** attempts, 4_000) }
}

/** What the page shows in a state. */
export interface StateText {
  short: string
  title: string
  text: string
  todo: string
  /** To be typed in a terminal. */
  command: string
}

const texts: Record<PageState, Partial<StateText> & { short: string }> = {
  connecting: { short: 'Connecting…', title: 'Connecting…' },
  live: { short: 'Live' },
  reconnecting: {
    short: 'Reconnecting…',
    title: 'Reconnecting…',
    text: 'The connection to the desktop was lost. The desktop keeps running.',
  },
  moved: {
    short: 'Moving…',
    title: 'The desktop has moved to another host',
    text: 'It keeps running, and this page reconnects by itself.',
  },
  'taken-over': {
    short: 'Taken over',
    title: 'Taken over',
    text: 'Another client took this claim, or you opened the screen elsewhere.',
    todo: 'To take it back:',
    command: 'dormouse open {id} --takeover{view}',
  },
  asleep: {
    short: 'Asleep',
    title: 'The desktop is not awake',
    text: 'It hibernates, or it was shut down. Its data is kept.',
    todo: 'Wake it, and this page reconnects:',
    command: 'dormouse wake {id}',
  },
  waking: {
    short: 'Waking…',
    title: 'The desktop is waking',
    text: 'This page reconnects as soon as it is awake.',
  },
  destroyed: { short: 'Destroyed', title: 'The desktop was destroyed', text: 'There is nothing left to show.' },
  ended: {
    short: 'Ended',
    title: 'This link no longer works',
    text: 'It is incomplete, it was used, it has expired, or its credential was revoked.',
    todo: 'Request a new link:',
    command: 'dormouse open {id}{view}',
  },
  lost: {
    short: 'Lost',
    title: 'The desktop is unreachable',
    text: 'Its host or the service did not respond for five minutes.',
    todo: 'Check its state, then request a new link:',
    command: 'dormouse get {id}',
  },
}

export interface Occasion {
  desktopId: string
  claim: 'view' | 'control'
  /** The service's own reason for the end if it gave one. */
  why: string | undefined
}

/** The text of a state. In `ended`, the service's own reason replaces the general one. */
export function textOf(state: PageState, { desktopId, claim, why }: Occasion): StateText {
  const { short, title = '', text = '', todo = '', command = '' } = texts[state]
  return {
    short,
    title,
    text: state === 'ended' && why ? asSentence(why) : text,
    todo,
    command: command.replace('{id}', desktopId).replace('{view}', claim === 'view' ? ' --view' : ''),
  }
}

const asSentence = (why: string): string => `${why.charAt(0).toUpperCase()}${why.slice(1)}.`
