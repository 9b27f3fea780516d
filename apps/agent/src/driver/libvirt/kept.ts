// A domain whose memory was saved and that stays, paused: QEMU then is in a state of its own, `postmigrate`, until it runs again.
import type { Domain } from '@dormouse/node-libvirt'
import { wakeSuspended } from './guest-sleep.ts'

/** The only disk of a domain; its content stays as it is. */
const disks = ['vda']

/**
 * QEMU saves a guest once, and only again when it has run: a guest whose save was interrupted runs for a moment. libvirt pauses
 * it again before it is saved.
 */
export async function makeSavable(domain: Domain): Promise<void> {
  const { state } = await domain.state()
  if (state === 'pmsuspended') await suspendWoken(domain)
  else if (state === 'paused' && (await isKept(domain))) await domain.resume()
}

/** QEMU restores a guest that has suspended itself as one that runs, and it never does. So it is woken, and saved as it wakes. */
async function suspendWoken(domain: Domain): Promise<void> {
  await wakeSuspended(domain)
  await domain.suspend()
}

/** The guest is suspended first: libvirt resumes one that it has paused itself, when its daemon has died meanwhile. */
export async function saveSuspended(domain: Domain, path: string): Promise<void> {
  const { state } = await domain.state()
  if (state !== 'paused') await domain.suspend()
  await domain.snapshotMemory(path, disks)
}

/** Whether the guest has not run since its memory was saved. */
export async function isKept(domain: Domain): Promise<boolean> {
  const { status } = (await domain.monitor('query-status')) as { status?: string }
  return status === 'postmigrate'
}
