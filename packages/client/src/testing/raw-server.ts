// A TCP server for tests of clients: it sends whatever bytes a test wants as soon as a request comes.
import { type AddressInfo, createServer, type Socket } from 'node:net'

/** Serves on loopback until disposed. */
export async function serveRaw(respond: (socket: Socket) => void): Promise<AsyncDisposable & { baseUrl: string }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).once('data', () => respond(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
