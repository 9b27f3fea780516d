// Opens every socket to a guest: to its port, its network and its screen. Such a socket has an error listener from its
// first moment to its last: without one, a guest that resets the connection would end this process.
import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'

/** Names a file without opening it. Node has no constant for it. */
const pathOnly = 0o10000000

/** A connected socket. Throws `refusal` if it does not connect in time; later errors only close it. */
export async function openSocket(to: NetConnectOpts, timeoutMs: number, refusal: () => Refusal): Promise<Socket> {
  const because = (cause?: unknown) => Object.assign(refusal(), { cause })
  if (!('path' in to) || !to.path) return connected(to, timeoutMs, because)
  let file: number | undefined
  try {
    file = socketItself(to.path)
    return await connected({ ...to, path: `/proc/self/fd/${file}` }, timeoutMs, because)
  } catch (error) {
    throw error instanceof Refusal ? error : because(error)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** QEMU's user owns the folders of its sockets. A link there could lead to a socket that only this process may open. */
function socketItself(path: string): number {
  const file = openSync(path, pathOnly | constants.O_NOFOLLOW)
  if (fstatSync(file).isSocket()) return file
  closeSync(file)
  throw new Error(`${path} is not a socket`)
}

async function connected(
  to: NetConnectOpts,
  timeoutMs: number,
  because: (cause?: unknown) => Refusal,
): Promise<Socket> {
  const opened = Promise.withResolvers<Socket>()
  const socket = connect(to)
  const fail = (cause?: Error) => opened.reject(because(cause))
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
