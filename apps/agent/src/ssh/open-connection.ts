// Opens a socket to a guest's SSH server, over a port that only its host can open or a network that only its host is on.
// SSH starts on that socket. Knows nothing of keys.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '@dormouse/contract'
import type { SshAddress } from '../driver/guest-access.ts'
import { openSocket } from '../mechanics/open-socket.ts'
import { sshLimits } from '../scripts/limits.ts'
import { shakeHands } from './handshake.ts'

const retryMs = 150

type PortAddress = Extract<SshAddress, { path: string }>
type NetworkAddress = Exclude<SshAddress, { path: string }>

/** A socket on which SSH starts; `guest_unavailable` if there is none in time, or once it is not wanted any more. */
export function openConnection(address: SshAddress, isWanted: () => boolean = () => true): Promise<Socket> {
  return 'path' in address ? openPort(address, isWanted) : openNetwork(address, isWanted)
}

/**
 * QEMU stalls a port for good where a guest that was saved or moved had sent more than its host had read. Closing the port
 * ends that: a port that sends nothing is closed and opened again. A guest that is up sends something at once, were it only
 * that it did not understand; a busy one gets more time with each attempt.
 */
async function openPort(address: PortAddress, isWanted: () => boolean): Promise<Socket> {
  const deadline = performance.now() + sshLimits.reachMs
  for (let silenceMs: number = sshLimits.firstSilenceMs; ; silenceMs *= 2) {
    const socket = await dial(address)
    let isSilent = true
    socket.once('data', () => {
      isSilent = false
    })
    const timer = setTimeout(() => isSilent && socket.destroy(), silenceMs)
    try {
      await shakeHands(socket, deadline - performance.now())
      return socket
    } catch (error) {
      socket.destroy()
      if (!isSilent || !isWanted() || performance.now() > deadline) throw error
      await sleep(sshLimits.portRestMs)
    } finally {
      clearTimeout(timer)
    }
  }
}

async function openNetwork(address: NetworkAddress, isWanted: () => boolean): Promise<Socket> {
  const deadline = performance.now() + sshLimits.reachMs
  for (;;) {
    try {
      const socket = await dial(address)
      // A command is a few small packets in each direction; none may wait for the previous one.
      return socket.setNoDelay(true)
    } catch (error) {
      if (isOnOtherNetwork(error) || !isWanted() || performance.now() > deadline) throw error
      await sleep(retryMs)
    }
  }
}

/** This host is not on the guest's network, so the address would lead to some other machine. */
const isOnOtherNetwork = (error: unknown): boolean =>
  error instanceof Refusal && (error.cause as NodeJS.ErrnoException | undefined)?.code === 'EADDRNOTAVAIL'

const dial = (address: SshAddress): Promise<Socket> =>
  openSocket(address, sshLimits.dialMs, () => new Refusal('guest_unavailable', 'the guest’s SSH server is unreachable'))
