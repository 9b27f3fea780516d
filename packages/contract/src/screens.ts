// How a desktop's screen is reached: what the page and the relay say to each other. No schema here, for the page is small.

/** Why a screen's socket was closed by us. The reason beside the code is one sentence for people. */
export const screenCloses = {
  /** Another client took the claim, or its holder opened it again elsewhere. */
  takenOver: 4001,
  asleep: 4002,
  destroyed: 4003,
  /** The key behind it was revoked, or the token was used, has expired, or is not for this screen. */
  revoked: 4004,
  /** The way to the desktop's screen broke; opening it again may find it. */
  hostLost: 4005,
} as const

/** Said with `asleep` while the desktop is on its way up: nobody has to wake it. */
export const wakingReason = 'the desktop is waking; open it again in a moment'

/**
 * The page offers this WebSocket subprotocol: it is then told by text frames, as JSON, that the service is there, and the
 * ticket by which it may come back within the grace; it says `ticketKept` once it has that. Programs that do not offer
 * the subprotocol see binary frames only, which are RFB as it is.
 */
export const screenProtocol = 'dormouse.screen.v1'

/** Until this is said, what the socket was opened with opens it again: the answer to an opening may have been lost. */
export const ticketKept = 'kept'

/** Good once, in the place of the token, as long as the claim is held. */
export interface TicketNote {
  ticket: string
}

/** Said every so often, whether anything changes on the screen or not: a page that does not hear it has no way here. */
export interface PulseNote {
  alive: true
}

export type ScreenNote = TicketNote | PulseNote

export const pulseEveryMs = 5_000
