// What a simulated domain shows of itself, and what pausing does to it.
import type { Domain } from '../driver.ts'
import type { SimulatedDomain } from './store.ts'

export function toDomain({ mark, state, outOfSpace }: SimulatedDomain): Domain {
  return { desktopId: mark.desktopId, mark, state, reason: state === 'paused' ? 'paused' : null, outOfSpace }
}

/** Stops the vCPUs: the time awake no longer rises, and `runningSince` keeps the moment since when the clock lags. */
export function paused(domain: SimulatedDomain): SimulatedDomain {
  if (domain.state === 'paused') return domain
  const now = Date.now()
  const awakeMs = domain.memory.awakeMs + now - (domain.runningSince ?? now)
  return { ...domain, state: 'paused', runningSince: now, memory: { ...domain.memory, awakeMs } }
}
