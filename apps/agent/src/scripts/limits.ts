// How long each step of access to a guest may take, and how much may be sent, kept or open at once. Nothing that a guest
// sends is trusted: whatever it can make longer or larger has its limit here. How often a loop tries is beside the loop.
const KiB = 1024
const MiB = 1024 * KiB

/** A reply to a command must fit into one frame of the link, with its output escaped as JSON. */
export const replyMaxBytes = 3.75 * MiB

/** What the guest's login shell may print before our script starts. */
export const greetingMaxBytes = 16 * KiB

/** The SSH connection and its channels. */
export const sshLimits = {
  /** How long one attempt to connect a socket may take. */
  dialMs: 2_000,
  /** How long connecting is retried: the guest may be booting. */
  reachMs: 30_000,
  /** How long a port may send nothing before it is closed and opened again. Doubled each time, for a busy guest. */
  firstSilenceMs: 1_000,
  /** How long a port stays closed before it is opened again, so that the guest notices. */
  portRestMs: 300,
  loginMs: 10_000,
  /** So often that a silent server is checked twice within two seconds (watchdog.ts). */
  keepaliveMs: 600,
  /** A busy guest that answers nothing for half a minute is unreachable. A port that stalls continues with each keepalive. */
  keepalives: 50,
  /** How long a busy guest may take to start a command. The keepalives detect a guest that is unreachable. */
  openChannelMs: 20_000,
  /** How long the answer to a probe may take, and how long the guest's activity is then measured. */
  probeMs: 1_000,
  probeActivityMs: 500,
  /** The server accepts 100 channels; some are reserved for the scripts that end commands. */
  channels: 90,
  /** Only a server that never closes a channel has this many open. */
  hostileChannels: 256,
  /** A channel whose reader pauses holds at most 4 MiB: the window, and one that was in flight. */
  windowMaxBytes: 4 * MiB,
  /** How much memory a channel may take: its window in the small pieces in which a program may print. */
  channelMaxBytes: 32 * MiB,
  /** All channels of a connection: each may have a reader that pauses. */
  unreadMaxBytes: 512 * MiB,
  /** As many commands as a desktop may have in flight, each with the longest input. */
  unsentMaxBytes: 160 * MiB,
  /** Transfers wait while more than this is queued, so that commands are not delayed. */
  queuedMaxBytes: 512 * KiB,
} as const

/** When a silent connection is closed, although its keepalives have not failed yet. */
export const watchdogLimits = {
  /** A keepalive comes 0.6 s after the answer to the last one; the rest is its round trip. */
  silenceMs: 900,
  /** How long a silent guest is checked. */
  checkMs: 300,
  /** How long the silence must last if the guest agent does not answer either. */
  silenceWithoutAgentMs: 2_500,
} as const

/** Files. */
export const fileLimits = {
  /** How long a step that creates folders or moves a file may take: it waits for the guest's disk only. */
  scriptSecs: 30,
  uploadStepSecs: 30,
  /** What the script that unpacks an archive may print. */
  placeMaxBytes: 16 * KiB,
  /** How much of the guest's error message is kept. */
  messageMaxLength: 4_096,
  /** How often removing an unfinished file is retried: a guest that reboots is back by then. */
  removeTries: 24,
  removeEveryMs: 5_000,
  /** Transfers of one desktop at once. */
  transfersAtOnce: 4,
} as const

/** Listing entries. */
export const entryLimits = {
  /** How long a search may take in the guest. */
  searchSecs: 25,
  /** How long the whole listing may take. */
  listSecs: 30,
  /** Added to the timeout of a change, in which the guest ends it. */
  changeMarginSecs: 5,
  /** A page must fit into one frame of the link. */
  pageMaxBytes: 1 * MiB,
} as const

/** How long the exchange of SSH keys may take in the guest. */
export const keyExchangeSecs = 20
