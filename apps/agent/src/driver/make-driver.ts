// Which hypervisor, from the configuration.
import { join } from 'node:path'
import { type AgentConfig, foldersOf } from '../config.ts'
import type { Driver } from './driver.ts'
import type { FaultSettings } from './simulated/faults.ts'
import { SimulatedDriver } from './simulated/simulated.ts'

export function makeDriver(config: AgentConfig): Driver {
  return simulatedFrom(config)
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
