// For tests: two peers over a real loopback WebSocket, an upgrade server, and a proxy that injects faults.

export { openDoors } from './doors.ts'
export { type Direction, FaultProxy } from './fault-proxy.ts'
export { type JoinedPair, joined, listenOnLoopback, pair } from './pair.ts'
