// What the host can do, as far as the agent needs it: libvirt's capabilities, and whether KVM works.
import { open, readFile } from 'node:fs/promises'

export interface Capabilities {
  emulator: string
  /** From a family (`pc`, `q35`) to its newest versioned type, which stays the same over upgrades of QEMU. */
  machines: Map<string, string>
  kvm: boolean
  /** The user that QEMU runs as, if libvirt reports it. */
  owner: { uid: number; gid: number } | undefined
  /** Whether AppArmor confines each QEMU to the paths that libvirt lists for it. */
  hasAppArmor: boolean
}

/** Undefined if there is no QEMU for x86_64. */
export function readCapabilities(xml: string): Capabilities | undefined {
  const guests = xml.split(/<guest>/).slice(1)
  const guest = guests.find((part) => part.includes('<os_type>hvm</os_type>') && part.includes("<arch name='x86_64'>"))
  const emulator = guest && /<emulator>([^<]+)<\/emulator>/.exec(guest)?.[1]
  if (!guest || !emulator) return undefined
  const machines = [...guest.matchAll(/<machine[^>]*?canonical='([^']+)'[^>]*>([^<]+)<\/machine>/g)]
  return {
    emulator,
    machines: new Map(machines.map(([, canonical, family]) => [family!, canonical!])),
    kvm: guest.includes("<domain type='kvm'"),
    owner: ownerOf(xml),
    hasAppArmor: xml.includes('<model>apparmor</model>'),
  }
}

function ownerOf(xml: string): Capabilities['owner'] {
  const label = /<model>dac<\/model>[\s\S]*?<baselabel type='[^']*'>\+(\d+):\+(\d+)<\/baselabel>/.exec(xml)
  return label ? { uid: Number(label[1]), gid: Number(label[2]) } : undefined
}

/** Whether the processor has the flags and the device opens; a device file alone proves nothing. */
export async function kvmOpens(): Promise<boolean> {
  const cpu = await readFile('/proc/cpuinfo', 'utf8')
  if (!/^flags\s*:.*\b(vmx|svm)\b/m.test(cpu)) return false
  try {
    const device = await open('/dev/kvm', 'r+')
    await device.close()
    return true
  } catch {
    // Missing, or without permission: either way it cannot be used.
    return false
  }
}
