// What tests need of the link: two peers joined over a real loopback WebSocket, a door, and a proxy that spoils it on demand.

export { openDoors } from './doors.ts'
export { type Direction, FaultProxy } from './fault-proxy.ts'
export { type JoinedPair, joined, listenOnLoopback, pair } from './pair.ts'
