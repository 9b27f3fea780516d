// Ports of this machine, reachable from a private host's network under the same loopback address. Knows nothing of what
// passes.
//
// A socket belongs to the network in which it was created. So a short-lived process listens inside and hands the servers
// out; this process then accepts the connections and joins each to the same port outside.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Server, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { insideNetwork } from './private-host.ts'

export type SharedPorts = {
  /** Closes the ports inside, and every connection through them. */
  close(): void
}

const inside = fileURLToPath(new URL('shared-ports-inside.ts', import.meta.url))

/** Opens these loopback ports inside the network of that process. Rejects if one of them is in use there. */
export async function sharePorts(pid: number, ports: readonly number[]): Promise<SharedPorts> {
  const [execPath, ...execArgv] = [...insideNetwork(pid), process.execPath]
  const child = fork(inside, ports.map(String), {
    execPath: execPath!,
    execArgv,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const servers: Server[] = []
  const sockets = new Set<Socket>()
  const opened = Promise.withResolvers<void>()
  child.on('message', (port: number, server) => {
    servers.push((server as Server).on('connection', (near) => join(near, connect(port, '127.0.0.1'), sockets)))
    if (servers.length === ports.length) opened.resolve()
  })
  child.on('error', opened.reject)
  child.on('exit', () => opened.reject(new Error(`ports ${ports.join(', ')} could not be opened in a private host`)))
  await opened.promise
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
  return {
    close: () => {
      for (const server of servers) server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

function join(near: Socket, far: Socket, sockets: Set<Socket>): void {
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const) {
    sockets.add(one)
    one.setNoDelay(true)
    one.on('error', () => other.destroy())
    one.on('close', () => {
      sockets.delete(one)
      other.destroy()
    })
    one.pipe(other)
  }
}
