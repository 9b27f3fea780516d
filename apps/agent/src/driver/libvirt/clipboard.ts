// The clipboard that a guest shares with whoever controls its screen: QEMU's own, on a port that is plugged in while the
// guest runs. QEMU before 10.1 saves and moves no guest that has such a port, so it is there between the sleeps only.
import { setTimeout as sleep } from 'node:timers/promises'
import { refuse } from '@dormouse/contract'
import type { Domain } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { clipboardXml, hasClipboard } from './domain-xml.ts'
import { saying } from './failures.ts'

/** It takes milliseconds, but with a QEMU that hangs it takes for ever. */
const patience = { timeoutMs: 15_000 }

const unpluggedMs = 5_000
const lookMs = 20

/** Plugs the port in, also while the guest is paused. Without it (libvirt before 8.4) the desktop runs just as well. */
export async function offerClipboard(domain: Domain, log: Log): Promise<void> {
  try {
    await domain.attachDevice(clipboardXml, patience)
  } catch (error) {
    log.warn({ err: error, desktopId: domain.uuid }, 'the desktop has no clipboard: its port could not be plugged in')
  }
}

/** Does what a domain with that port does not let be done; where it fails, the port is back. */
export async function withoutClipboard(domain: Domain, log: Log, work: () => Promise<void>): Promise<void> {
  if (!hasClipboard(await domain.xml())) return work()
  await saying('the clipboard’s port could not be unplugged, with which no memory is saved', unplug(domain))
  try {
    await work()
  } catch (error) {
    await offerClipboard(domain, log)
    throw error
  }
}

/** libvirt may call it done while QEMU still has the port. */
async function unplug(domain: Domain): Promise<void> {
  await domain.detachDevice(clipboardXml, patience)
  const ends = performance.now() + unpluggedMs
  while (hasClipboard(await domain.xml())) {
    if (performance.now() > ends) refuse('hypervisor_failed', 'the clipboard’s port is unplugged, and does not go')
    await sleep(lookMs)
  }
}
