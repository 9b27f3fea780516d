// Creates the ssh2 client of a guest's server and logs in. Nothing that the server sends is trusted: it proves its key, it
// does not choose costly algorithms, and its errors end the connection and nothing else.
import type { Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'
import ssh2, { type Algorithms, type Client, type ClientChannel } from 'ssh2'
import { sshLimits } from '../scripts/limits.ts'
import { closeChannel, guardChannels, type Unread, unreadOf } from './channels.ts'
import type { GuestKeys } from './keys.ts'

/**
 * Left out: groups that the server generates (each may cost a third of a second), and compression (a packet may unpack to
 * 35 MB).
 */
const algorithms: Algorithms = {
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    'ecdh-sha2-nistp256',
    'ecdh-sha2-nistp384',
    'ecdh-sha2-nistp521',
    'diffie-hellman-group14-sha256',
    'diffie-hellman-group16-sha512',
  ],
  serverHostKey: ['ssh-ed25519'],
  cipher: ['chacha20-poly1305@openssh.com', 'aes128-gcm@openssh.com', 'aes128-ctr'],
  compress: ['none'],
}

/** The guest does not accept our key, or has another one than we know: keys must be exchanged again. */
export class KeysRejected extends Refusal {
  constructor() {
    super('guest_unavailable', 'the guest and this host do not have each other’s SSH keys')
  }
}

/** A client that is logged in. Any error destroys its socket. */
export async function logIn(socket: Socket, { privateKey, hostKey }: GuestKeys): Promise<Client> {
  const client = new ssh2.Client()
  // Each channel that is being opened waits for the end of the connection.
  client.setMaxListeners(0)
  const loggedIn = Promise.withResolvers<void>()
  let hasOtherKey = false
  client
    .on('handshake', () => hideVendor(client))
    .once('ready', () => loggedIn.resolve())
    .on('error', (error) => {
      loggedIn.reject(hasOtherKey ? new KeysRejected() : asRefusal(error))
      // A server that violated the protocol may never close it.
      socket.destroy()
    })
    .once('close', () => loggedIn.reject(new Refusal('guest_unavailable', 'the guest’s SSH server disconnected')))
  try {
    client.connect({
      sock: socket,
      username: 'root',
      privateKey,
      hostVerifier: (key: Buffer) => {
        hasOtherKey = key.toString('base64') !== hostKey
        return !hasOtherKey
      },
      readyTimeout: sshLimits.loginMs,
      keepaliveInterval: sshLimits.keepaliveMs,
      keepaliveCountMax: sshLimits.keepalives,
      algorithms,
    })
    guardChannels(client)
    limitMemory(client, socket)
    await loggedIn.promise
    return client
  } catch (error) {
    socket.destroy()
    throw error
  }
}

/** Ends a connection whose server sends more than a host may hold, requests more answers than it reads, or does not close. */
function limitMemory(client: Client, socket: Socket): void {
  socket.once('finish', () => socket.destroy())
  socket.on('data', () => {
    const closing = channelsToClose(unreadOf(client))
    if (closing === 'all' || socket.writableLength > sshLimits.unsentMaxBytes) socket.destroy()
    else for (const channel of closing) closeChannel(channel)
  })
}

/** A channel whose unread bytes take too much memory is closed alone: a slow reader costs the others nothing. */
export function channelsToClose(unread: Unread[]): ClientChannel[] | 'all' {
  const heldBytes = unread.reduce((sum, one) => sum + one.heldBytes, 0)
  const isViolated = unread.some(({ bytes }) => bytes > sshLimits.windowMaxBytes)
  if (isViolated || heldBytes > sshLimits.unreadMaxBytes) return 'all'
  return unread.filter((one) => one.heldBytes > sshLimits.channelMaxBytes).map(({ channel }) => channel)
}

/**
 * A server that ssh2 takes for OpenSSH may send any number of further host keys. ssh2 verifies each, however large, and
 * keeps those that it waits for. We need none of them.
 */
function hideVendor(client: Client): void {
  Object.assign(client, { _remoteVer: '' })
}

export function asRefusal(error: Error & { level?: string }): Error {
  if (error.level === 'client-authentication') return new KeysRejected()
  const refusal = new Refusal('guest_unavailable', 'the guest’s SSH server cannot be used')
  refusal.cause = error
  return refusal
}
