// What users of the link import: calls, events and byte channels over WebSockets. Knows nothing of desktops.

export { Channel, type ChannelOptions, channelMaxFrameBytes, dialChannel } from './channel.ts'
export { type Backoff, type DialOptions, dial, type Line, type LineEvents } from './dial.ts'
export {
  asRefusal,
  CallFailed,
  CallRefused,
  CallTimeout,
  ChannelLost,
  DialRefused,
  FrameTooLarge,
  LinkLost,
} from './errors.ts'
export { freeMemory } from './free-memory.ts'
export { type Handshake, shakeHands } from './handshake.ts'
export type { LinkLog } from './link-log.ts'
export { Pace } from './pace.ts'
export {
  type CallOptions,
  type Handler,
  type HandlerContext,
  Peer,
  type PeerEvents,
  type PeerOptions,
} from './peer.ts'
export type { DialTarget } from './sockets.ts'
export { acceptUpgrades, type UpgradeOptions, UpgradeRefusal, type UpgradeRoute, type Upgrades } from './upgrades.ts'
