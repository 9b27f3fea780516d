// The one place where a socket to a guest is opened: to its port, to its network, to its screen. Such a socket has an error
// listener from its first moment to its last, so that nothing a guest does to it can end the process.
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import type { Refusal } from '@dormouse/contract'

/** A connected socket. Whoever uses it sees it close; `refusal` is thrown where it does not connect in time. */
export async function openSocket(to: NetConnectOpts, timeoutMs: number, refusal: () => Refusal): Promise<Socket> {
  const opened = Promise.withResolvers<Socket>()
  const socket = connect(to)
  const fail = (cause?: Error) => opened.reject(Object.assign(refusal(), { cause }))
  const timer = setTimeout(fail, timeoutMs)
  socket.on('error', fail).once('connect', () => opened.resolve(socket))
  try {
    return await opened.promise
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}
