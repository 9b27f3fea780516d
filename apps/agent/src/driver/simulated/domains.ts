// How a simulated domain begins, what it shows of itself, and what pausing does to it.
import { type DesktopSpec, newId } from '@dormouse/contract'
import type { Domain, GuestSleep } from '../driver.ts'
import type { Mark } from '../mark.ts'
import type { SimulatedFaults } from './faults.ts'
import type { JsonFolder, SimulatedDomain } from './store.ts'

/** Every guest has this address: each is alone on its network. */
export const simulatedAddress = { mac: '52:00:00:00:00:01', ip: '192.0.2.1' }
/** A domain that begins to boot now. */
export function booted(mark: Mark, spec: DesktopSpec, { nic }: Pick<SimulatedDomain, 'nic'>): SimulatedDomain {
  const memory = { bootId: newId(), clockOffsetMs: 0, hasAddress: nic }
  return { mark, spec, state: 'running', outOfSpace: false, nic, runningSince: Date.now(), memory }
}

export function toDomain({ mark, state, outOfSpace, suspended }: SimulatedDomain): Domain {
  const pause = outOfSpace ? 'space' : suspended ? 'suspended' : 'paused'
  const isPaused = state === 'paused'
  return { desktopId: mark.desktopId, mark, state, reason: isPaused ? pause : null, pause: isPaused ? pause : null }
}

/** Stops the vCPUs: `runningSince` keeps the moment since when the clock lags. */
export function paused(domain: SimulatedDomain): SimulatedDomain {
  if (domain.state === 'paused') return domain
  return { ...domain, state: 'paused', runningSince: Date.now() }
}

/**
 * How a guest stops without a command: its disk cannot grow, it suspends itself to memory or to idle, or something else pauses it.
 */
export type Standstill = 'space' | 'memory' | 'idle' | 'paused'

export const stoodStill = (domain: SimulatedDomain, how: Standstill): SimulatedDomain =>
  how === 'idle'
    ? { ...domain, idles: true }
    : { ...paused(domain), outOfSpace: how === 'space', suspended: how === 'memory' }

export const guestSleep = ({
  domains,
  faults,
}: {
  domains: JsonFolder<SimulatedDomain>
  faults: SimulatedFaults
}): GuestSleep => ({
  isAsleep: async (desktopId) => {
    await faults.enter('isAsleep')
    return domains.read(desktopId)?.idles === true
  },
  wake: async (desktopId) => {
    await faults.enter('wakeAsleep')
    const domain = domains.read(desktopId)
    if (domain?.idles) domains.write(desktopId, { ...domain, idles: false })
  },
})
