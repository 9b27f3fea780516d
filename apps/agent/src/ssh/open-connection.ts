// The two ways to a guest's SSH server: a port of its own that only its host can open, or a network that only its host is
// on. Either ends with a socket on which SSH begins. Knows nothing of keys.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '@dormouse/contract'
import { openSocket } from '../mechanics/open-socket.ts'
import { shakeHands } from './handshake.ts'

/** `localAddress` is the host's own on the guest's network. */
export type Door = { path: string } | { host: string; port: number; localAddress: string }

const dialMs = 2_000
/** A guest may be booting. */
const patienceMs = 30_000
const retryMs = 150
/** A guest that is up says something at once, were it only that it does not understand; a busy one is given ever longer. */
const firstMuteMs = 1_000
/** Before a port is taken again, so that the guest can notice that it was let go. */
export const restMs = 300

/** A socket on which SSH begins; `guest_unavailable` where there is none in time, or it is not wanted any more. */
export function reach(door: Door, wanted: () => boolean = () => true): Promise<Socket> {
  return 'path' in door ? reachPort(door, wanted) : reachAddress(door, wanted)
}

/**
 * QEMU holds a port back for good where a guest that was saved or moved had said more than its host had taken, and lets it
 * go when it is closed: one that says nothing is taken anew.
 */
async function reachPort(door: { path: string }, wanted: () => boolean): Promise<Socket> {
  const ends = performance.now() + patienceMs
  for (let muteMs = firstMuteMs; ; muteMs *= 2) {
    const socket = await dial(door)
    let mute = true
    socket.once('data', () => {
      mute = false
    })
    const timer = setTimeout(() => mute && socket.destroy(), muteMs)
    try {
      await shakeHands(socket, ends - performance.now())
      return socket
    } catch (error) {
      socket.destroy()
      if (!mute || !wanted() || performance.now() > ends) throw error
      await sleep(restMs)
    } finally {
      clearTimeout(timer)
    }
  }
}

async function reachAddress(door: Exclude<Door, { path: string }>, wanted: () => boolean): Promise<Socket> {
  const ends = performance.now() + patienceMs
  for (;;) {
    try {
      const socket = await dial(door)
      // A command is a few small packets each way: none waits for the one before.
      return socket.setNoDelay(true)
    } catch (error) {
      if (isElsewhere(error) || !wanted() || performance.now() > ends) throw error
      await sleep(retryMs)
    }
  }
}

/** This host is not on the guest's network: whoever has the address here is a stranger. */
const isElsewhere = (error: unknown): boolean =>
  error instanceof Refusal && (error.cause as NodeJS.ErrnoException | undefined)?.code === 'EADDRNOTAVAIL'

const dial = (door: Door): Promise<Socket> =>
  openSocket(door, dialMs, () => new Refusal('guest_unavailable', 'the guest’s SSH server is not reached'))
