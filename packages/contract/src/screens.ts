// What the viewer page and the relay send each other about a desktop's screen. No schema here: the page stays small.

/** Close codes of a screen's socket. The close reason is one sentence for people. */
export const screenCloses = {
  /** Another client took the claim, or its holder opened it elsewhere. */
  takenOver: 4001,
  asleep: 4002,
  destroyed: 4003,
  /** The credential was revoked, or the token was used, has expired, or is for another screen. */
  revoked: 4004,
  /** The connection to the desktop's screen was lost; opening it again may help. */
  hostLost: 4005,
  /** The desktop has moved to another host; opening it again works at once, and the claim is kept. */
  moved: 4006,
} as const

/** Why the service closed a screen's socket, more precisely than the close code. */
export type ScreenEndCause =
  | 'takenOver'
  | 'asleep'
  | 'waking'
  | 'restarted'
  | 'destroyed'
  | 'revoked'
  | 'expired'
  | 'spent'
  | 'graceOver'
  | 'hostLost'
  | 'hostRemoved'
  | 'moved'
  | 'unfollowed'
  | 'unreadable'

/**
 * The page offers this WebSocket subprotocol. It then receives notes, as JSON in text frames, beside RFB in binary frames.
 * A program that does not offer it receives RFB alone.
 */
export const screenProtocol = 'dormouse.screen.v1'

/** The page sends this once it has stored its ticket. Until then, the token it opened the socket with still works. */
export const ticketKept = 'kept'

/** A ticket reopens the screen once, in place of the token, as long as the claim is held. */
export interface TicketNote {
  ticket: string
}

/** Sent periodically, whether the screen changes or not. A page that misses it has lost its connection. */
export interface PulseNote {
  alive: true
}

/** Sent just before the service closes the socket. */
export interface EndNote {
  end: { cause: ScreenEndCause; why: string }
}

export type ScreenNote = TicketNote | PulseNote | EndNote

export const pulseEveryMs = 5_000
