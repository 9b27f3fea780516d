// Two peers joined over a real loopback WebSocket with a fault proxy between them.
// Knows nothing of what they send.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { WebSocket } from 'ws'
import { Peer, type PeerOptions } from '../peer.ts'
import { defaultMaxFrameBytes, openSocket } from '../sockets.ts'
import { openDoors } from './doors.ts'
import { FaultProxy } from './fault-proxy.ts'

export interface JoinedPair<Left, Right> extends AsyncDisposable {
  /** The side that dialled. */
  left: Left
  /** The side that answered. */
  right: Right
  proxy: FaultProxy
}

/** Two joined peers; disposing closes all. */
export function pair(options: { left?: PeerOptions; right?: PeerOptions } = {}): Promise<JoinedPair<Peer, Peer>> {
  return joined(
    (socket) => new Peer(socket, options.left),
    (socket) => new Peer(socket, options.right),
  )
}

/** Two ends of one WebSocket, each wrapped as given. */
export async function joined<Left, Right>(
  wrapLeft: (socket: WebSocket) => Left,
  wrapRight: (socket: WebSocket) => Right,
): Promise<JoinedPair<Left, Right>> {
  const server = createServer()
  const upgrades = openDoors(server)
  const answered = Promise.withResolvers<Right>()
  upgrades.add({
    path: () => true,
    authenticate: () => undefined,
    onSocket: (socket) => answered.resolve(wrapRight(socket)),
  })
  const proxy = await FaultProxy.start(await listenOnLoopback(server))
  const left = await openSocket({ url: `ws://127.0.0.1:${proxy.port}` }, defaultMaxFrameBytes, wrapLeft)
  const close = async () => {
    await proxy.close()
    await upgrades.close()
    server.close()
    await once(server, 'close')
  }
  return { left, right: await answered.promise, proxy, [Symbol.asyncDispose]: close }
}

/** Starts the server on a free loopback port and returns it. */
export async function listenOnLoopback(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
