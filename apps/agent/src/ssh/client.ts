// The one place where a client of ssh2 is made and logs in to a guest's server. Nothing that such a server says is trusted:
// it proves its key, it does not choose costly algorithms, and its errors end the connection and nothing else.
import type { Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'
import ssh2, { type Algorithms, type Client } from 'ssh2'
import { guardChannels, unreadBytes } from './channels.ts'
import type { GuestKeys } from './keys.ts'

const loginMs = 10_000
/**
 * A guest that is busy and says nothing for half a minute of these is gone; and a port that once in a while stands still
 * goes on with each. So often that a mute one can be looked at twice within two seconds (ssh-vigil.ts).
 */
const keepaliveMs = 600
const keepalives = 50

/** Four downloads that rest hold 4 MiB each: a window's worth, and one that was on its way. */
const unreadMaxBytes = 32 * 1024 * 1024
/** As many commands as a desktop may have under way, each with the longest input. */
const unsentMaxBytes = 160 * 1024 * 1024

/** Not among them: groups that the server makes up (each may cost a third of a second), and compression (a packet may unfold to 35 MB). */
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

/** One of the two does not have the other's key any more. */
export class NotKnown extends Refusal {
  constructor() {
    super('guest_unavailable', 'guest and host do not know each other')
  }
}

/** A client that is logged in, and whose socket ends with whatever goes wrong. */
export async function logIn(socket: Socket, { privateKey, hostKey }: GuestKeys): Promise<Client> {
  const client = new ssh2.Client()
  // Everything that is being begun waits for its end.
  client.setMaxListeners(0)
  const begun = Promise.withResolvers<void>()
  let stranger = false
  client
    .on('handshake', () => trustNoVendor(client))
    .once('ready', () => begun.resolve())
    .on('error', (error) => {
      begun.reject(stranger ? new NotKnown() : asRefusal(error))
      // A server that broke the rules may never close it.
      socket.destroy()
    })
    .once('close', () => begun.reject(new Refusal('guest_unavailable', 'the guest’s SSH server went away')))
  try {
    client.connect({
      sock: socket,
      username: 'root',
      privateKey,
      hostVerifier: (key: Buffer) => {
        stranger = key.toString('base64') !== hostKey
        return !stranger
      },
      readyTimeout: loginMs,
      keepaliveInterval: keepaliveMs,
      keepaliveCountMax: keepalives,
      algorithms,
    })
    guardChannels(client)
    keepBounds(client, socket)
    await begun.promise
    return client
  } catch (error) {
    socket.destroy()
    throw error
  }
}

/** Ends a connection whose server says more than is read, asks for more answers than it takes, or says goodbye and stays. */
function keepBounds(client: Client, socket: Socket): void {
  socket.once('finish', () => socket.destroy())
  socket.on('data', () => {
    if (unreadBytes(client) > unreadMaxBytes || socket.writableLength > unsentMaxBytes) socket.destroy()
  })
}

/**
 * Whom ssh2 takes for OpenSSH may send it any number of further host keys: it verifies each, however large, and keeps what
 * it waits for. We need none of them.
 */
function trustNoVendor(client: Client): void {
  Object.assign(client, { _remoteVer: '' })
}

export function asRefusal(error: Error & { level?: string }): Error {
  if (error.level === 'client-authentication') return new NotKnown()
  const refusal = new Refusal('guest_unavailable', 'the guest’s SSH server cannot be used')
  refusal.cause = error
  return refusal
}
