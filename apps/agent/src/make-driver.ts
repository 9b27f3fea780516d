// Which hypervisor, from the configuration.
import { join } from 'node:path'
import { oldVcpusPerProcessor } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { type AgentConfig, foldersOf } from './config.ts'
import type { Driver } from './driver/driver.ts'
import { LibvirtDriver } from './driver/libvirt/libvirt.ts'
import type { FaultSettings } from './driver/simulated/faults.ts'
import { SimulatedDriver } from './driver/simulated/simulated.ts'

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
  const { memoryMiB, diskGiB } = config
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
      capacity: { processors: processorsOf(config), memoryMiB, diskGiB },
    },
    log,
  )
}

/** The simulated driver as the configuration describes it. */
export function simulatedFrom(config: AgentConfig): SimulatedDriver {
  const { memoryMiB, diskGiB } = config
  const processors = processorsOf(config)
  const capacity = { memoryMiB: memoryMiB ?? 1_048_576, diskGiB: diskGiB ?? 16_384 }
  return new SimulatedDriver({
    folder: join(foldersOf(config).state, 'simulated'),
    ...(processors !== undefined && { processors }),
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

/** How many processors were set, by whichever of the two settings; undefined where neither was. */
const processorsOf = ({ processors, vcpus }: AgentConfig): number | undefined =>
  processors ?? (vcpus === undefined ? undefined : vcpus / oldVcpusPerProcessor)

function latencies(texts: string[]): FaultSettings['latencyMs'] {
  return Object.fromEntries(texts.map((text) => text.split('=')).map(([name, ms]) => [name, Number(ms)]))
}
