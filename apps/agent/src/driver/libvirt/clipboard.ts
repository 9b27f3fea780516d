// The clipboard that a guest shares with whoever controls its screen: QEMU's own, on a port that is plugged in while the
// guest runs. QEMU before 10.1 cannot save or migrate a guest with such a port, so it is unplugged before each save.
import { setTimeout as sleep } from 'node:timers/promises'
import { refuse } from '@dormouse/contract'
import type { Domain } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { clipboardXml, hasClipboard, isClipboardConnected } from './domain-xml.ts'
import { orRefuse } from './failures.ts'

/** It takes milliseconds, but a QEMU that hangs never answers. */
const patience = { timeoutMs: 15_000 }

const unpluggedMs = 5_000
const lookMs = 20
/**
 * Time for the guest's program to notice that its port is gone, and to end. If it found the next port in the same moment, it
 * would open that, and would get no data there until it is restarted (seen with spice-vdagent 0.22: 2 of 16 wakes, and never
 * after this pause).
 */
const noticedMs = 500

/** Plugs the port in, also while the guest is paused. Without it (libvirt before 8.4) the desktop still works. */
export async function offerClipboard(domain: Domain, log: Log): Promise<void> {
  try {
    await domain.attachDevice(clipboardXml, patience)
  } catch (error) {
    log.warn({ err: error, desktopId: domain.uuid }, 'the desktop has no clipboard; its port could not be plugged in')
  }
}

/** Does work that is impossible with that port plugged in. If the work fails, the port is plugged in again. */
export async function withoutClipboard(domain: Domain, log: Log, work: () => Promise<void>): Promise<void> {
  const xml = await domain.xml()
  if (!hasClipboard(xml)) return work()
  await orRefuse('the clipboard’s port could not be unplugged, and the memory cannot be saved with it', unplug(domain))
  if (isClipboardConnected(xml)) await sleep(noticedMs)
  try {
    await work()
  } catch (error) {
    await offerClipboard(domain, log)
    throw error
  }
}

/** libvirt may return while QEMU still has the port. */
async function unplug(domain: Domain): Promise<void> {
  await domain.detachDevice(clipboardXml, patience)
  const ends = performance.now() + unpluggedMs
  while (hasClipboard(await domain.xml())) {
    if (performance.now() > ends)
      refuse('hypervisor_failed', `QEMU did not release the clipboard’s port within ${unpluggedMs} ms`)
    await sleep(lookMs)
  }
}
