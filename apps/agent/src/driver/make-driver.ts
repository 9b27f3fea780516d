// Which hypervisor, from the configuration.
import { join } from 'node:path'
import type { Log } from '@dormouse/process'
import { type AgentConfig, foldersOf } from '../config.ts'
import type { Driver } from './driver.ts'
import { LibvirtDriver } from './libvirt/libvirt.ts'
import type { FaultSettings } from './simulated/faults.ts'
import { SimulatedDriver } from './simulated/simulated.ts'

export function makeDriver(config: AgentConfig, log: Log): Driver {
  return config.driver === 'libvirt' ? libvirtFrom(config, log) : simulatedFrom(config)
}

function libvirtFrom(config: AgentConfig, log: Log): LibvirtDriver {
  const folders = foldersOf(config)
  const {
    libvirtSocket: socketPath,
    libvirtUri: uri,
    socketsDir,
    kvm,
    cpuModel,
    network,
    networkPrefix,
    networkAllow,
  } = config
  const { vcpus, memoryMiB, diskGiB } = config
  return new LibvirtDriver(
    {
      socketPath,
      uri,
      socketsDir,
      kvm,
      cpuModel,
      network,
      networkPrefix,
      networkAllow,
      disksDir: folders.disks,
      consolesDir: folders.consoles,
      guestKeysDir: folders.guestKeys,
      imagesDir: folders.images,
      capacity: { vcpus, memoryMiB, diskGiB },
    },
    log,
  )
}

/** The simulated driver as the configuration describes it. */
export function simulatedFrom(config: AgentConfig): SimulatedDriver {
  const { vcpus, memoryMiB, diskGiB } = config
  const capacity = { vcpus: vcpus ?? 256, memoryMiB: memoryMiB ?? 1_048_576, diskGiB: diskGiB ?? 16_384 }
  return new SimulatedDriver({
    folder: join(foldersOf(config).state, 'simulated'),
    capacity,
    images: config.simulatedImages.filter((image) => image !== '*'),
    anyImage: config.simulatedImages.includes('*'),
    faults: {
      latencyMs: latencies(config.simulatedLatencyMs),
      fail: config.simulatedFail,
      diskFull: config.simulatedDiskFull,
      guestsSilent: config.simulatedGuestsSilent,
    },
  })
}

function latencies(texts: string[]): FaultSettings['latencyMs'] {
  return Object.fromEntries(texts.map((text) => text.split('=')).map(([name, ms]) => [name, Number(ms)]))
}
