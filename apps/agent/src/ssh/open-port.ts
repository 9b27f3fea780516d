// Opens a socket to a guest's SSH server, over a port that only its host can open. SSH starts on that socket. Knows nothing of
// keys.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '@dormouse/contract'
import { openSocket } from '../mechanics/open-socket.ts'
import { sshLimits } from '../scripts/limits.ts'
import { shakeHands } from './handshake.ts'

/**
 * QEMU stalls a port for good if a guest that was saved or moved had sent more than its host had read. Closing the port
 * ends that: a port that sends nothing is closed and opened again. If nothing in the guest serves it, `onSilence` may change that.
 * A guest that is up sends something at once, were it only that it did not understand; a busy one gets more time with each attempt.
 */
export async function openPort(
  path: string,
  isWanted: () => boolean = () => true,
  onSilence: () => Promise<unknown> = async () => undefined,
): Promise<Socket> {
  const deadline = performance.now() + sshLimits.reachMs
  for (let silenceMs: number = sshLimits.firstSilenceMs; ; silenceMs *= 2) {
    const socket = await dial(path)
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
      await Promise.all([sleep(sshLimits.portRestMs), onSilence()])
    } finally {
      clearTimeout(timer)
    }
  }
}

const dial = (path: string): Promise<Socket> =>
  openSocket(
    { path },
    sshLimits.dialMs,
    () => new Refusal('guest_unavailable', 'the guest’s SSH server is unreachable'),
  )
