// What a look at libvirt shows before a host is one: nothing is made or changed.
import { LibvirtHost, versionText } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { readCapabilities } from './capabilities.ts'
import { filterName } from './network-xml.ts'

export interface LibvirtLook {
  libvirt: string
  /** Undefined without a QEMU for x86_64. */
  qemu: string | undefined
  /** Whether it can limit guests to their own addresses. */
  hasFilter: boolean
}

export async function lookAtLibvirt(address: { socketPath: string; uri: string }, log: Log): Promise<LibvirtLook> {
  const host = await LibvirtHost.open({ ...address, log })
  try {
    const capabilities = readCapabilities(await host.capabilities())
    return {
      libvirt: versionText(await host.libraryVersion()),
      qemu: capabilities && versionText(await host.version()),
      hasFilter: await host.networks.hasFilter(filterName),
    }
  } finally {
    host.close()
  }
}
