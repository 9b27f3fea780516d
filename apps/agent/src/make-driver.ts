// Chooses the hypervisor from the configuration, and how its guests are reached.
import { join } from 'node:path'
import type { Log } from '@dormouse/process'
import { type AgentConfig, foldersOf } from './config.ts'
import type { Guests } from './driver/guest-transport.ts'
import { LibvirtDriver } from './driver/libvirt/libvirt.ts'
import type { CallObserver } from './driver/libvirt/settings.ts'
import type { FaultSettings } from './driver/simulated/faults.ts'
import { SimulatedDriver } from './driver/simulated/simulated.ts'
import { GuestConnections } from './guest/connections.ts'
import { SimulatedGuests } from './guest/simulated-guests.ts'

export type AnyDriver = LibvirtDriver | SimulatedDriver

export function makeDriver(config: AgentConfig, log: Log, observeCall?: CallObserver): AnyDriver {
  return config.driver === 'libvirt' ? libvirtFrom(config, log, observeCall) : simulatedFrom(config)
}

/** The driver's guests: real ones over SSH, with their keys in `keysDir`. */
export const guestsOf = (driver: AnyDriver, keysDir: string, log: Log): Guests =>
  driver.kind === 'libvirt' ? new GuestConnections(driver, keysDir, log) : new SimulatedGuests(driver, log)

function libvirtFrom(config: AgentConfig, log: Log, observeCall: CallObserver | undefined): LibvirtDriver {
  const folders = foldersOf(config)
  const { socketsDir, kvm, cpuModel, network, networkPrefix, networkAllow, memoryMiB, diskGiB, shareTemplates } = config
  return new LibvirtDriver(
    {
      socketPath: config.libvirtSocket,
      uri: config.libvirtUri,
      socketsDir,
      movesDir: folders.moves,
      kvm,
      cpuModel,
      network,
      networkPrefix,
      networkAllow,
      disksDir: folders.disks,
      consolesDir: folders.consoles,
      imagesDir: folders.images,
      capacity: { processors: config.processors, memoryMiB, diskGiB },
      shareTemplates,
      observeCall,
    },
    log,
  )
}

/** The simulated driver as the configuration describes it. */
export function simulatedFrom(config: AgentConfig): SimulatedDriver {
  const { processors, memoryMiB, diskGiB } = config
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

function latencies(texts: string[]): FaultSettings['latencyMs'] {
  return Object.fromEntries(texts.map((text) => text.split('=')).map(([name, ms]) => [name, Number(ms)]))
}
