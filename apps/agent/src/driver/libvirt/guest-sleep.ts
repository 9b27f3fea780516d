// Guests that have put themselves to sleep, and how they are woken. After S3 QEMU itself is suspended. After suspend-to-idle the
// guest runs nothing and waits for an event, which only its own registers show.
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, refuse } from '@dormouse/contract'
import type { Domain } from '@dormouse/node-libvirt'
import type { GuestSleep } from '../driver.ts'
import { machineOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'

const wakesMs = 15_000
const lookMs = 20

/** The power button's bit among the fixed ACPI events that the guest has enabled. */
const powerButton = 0x100
const fixedEvents = 0x602
/** What QEMU reads before the firmware has placed a device's registers. */
const absent = 0xffff
/** The other ACPI events that the guest has enabled, by the beginning of the machine's name. */
const generalEvents: Record<string, number> = { 'pc-i440fx': 0xafe2, 'pc-q35': 0x628 }

/** Whether it has suspended itself to memory, so that QEMU runs none of its processors. */
async function isSuspended(domain: Domain): Promise<boolean> {
  return (await domain.state()).state === 'pmsuspended'
}

/** Runs a guest that is paused, or has suspended itself to memory. */
export async function run(domain: Domain): Promise<void> {
  if (await isSuspended(domain)) await wakeSuspended(domain)
  else await domain.resume()
}

/** Returns when its processors run. */
export async function wakeSuspended(domain: Domain): Promise<void> {
  await domain.monitor('system_wakeup').catch(async (error: unknown) => {
    // It may have woken by itself.
    if (await isSuspended(domain)) refuse('hypervisor_failed', String(error))
  })
  const ends = performance.now() + wakesMs
  while (await isSuspended(domain)) {
    if (performance.now() > ends) refuse('hypervisor_failed', `a suspended guest did not wake within ${wakesMs} ms`)
    await sleep(lookMs)
  }
}

/**
 * Whether a guest with these registers waits in suspend-to-idle: it has then disabled every ACPI event but those that wake it.
 * While it works, it has those of hotplug enabled; before its system has begun, it has none or no registers at all.
 */
export function isSuspendedToIdle(fixed: number, general: number): boolean {
  return fixed !== absent && (fixed & powerButton) !== 0 && general === 0
}

/** False for a machine whose registers are not known. */
async function waitsForButton(domain: Domain): Promise<boolean> {
  const { machine } = machineOf(await domain.xml())
  const [, general] = Object.entries(generalEvents).find(([name]) => machine.startsWith(name)) ?? []
  if (general === undefined) return false
  return isSuspendedToIdle(await readPort(domain, fixedEvents), await readPort(domain, general))
}

/**
 * A sleeping guest takes the power button for the event that wakes it. A working guest would power off, so its state is checked
 * first.
 */
async function pressButtonIfAsleep(domain: Domain): Promise<void> {
  if (await waitsForButton(domain)) await domain.monitor('system_powerdown')
}

export const guestSleep = (domain: (desktopId: DesktopId) => Domain): GuestSleep => ({
  isAsleep: (desktopId) => orRefuse('the desktop’s process could not be asked', waitsForButton(domain(desktopId))),
  wake: (desktopId) => orRefuse('the guest could not be woken', pressButtonIfAsleep(domain(desktopId))),
})

/** Two bytes; reading these registers changes nothing. */
async function readPort(domain: Domain, port: number): Promise<number> {
  const answer = await domain.monitor('human-monitor-command', { 'command-line': `i/xh 0x${port.toString(16)}` })
  return Number(/=\s*(0x[0-9a-f]+)/i.exec(String(answer))?.[1] ?? Number.NaN)
}
