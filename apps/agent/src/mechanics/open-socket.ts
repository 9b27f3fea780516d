// Opens every socket to a guest: to its port, its network and its screen. Such a socket has an error listener from its
// first moment to its last: without one, a guest that resets the connection would end this process.
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import type { Refusal } from '@dormouse/contract'

/** A connected socket. Throws `refusal` where it does not connect in time; later errors only close it. */
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
