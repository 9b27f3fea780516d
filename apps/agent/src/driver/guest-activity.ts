// How a guest fares, seen from its host: tells one that is busy from one that will not answer. A guest that is busy burns
// its processors' time; one that hangs, or is stopped, does not.
import { setTimeout as sleep } from 'node:timers/promises'

export interface Pulse {
  /** Whether its process was stopped from outside: then nothing in it goes on until somebody lets it. */
  frozen(): boolean
  /** Whether, over so many ms from now on, the guest runs or wants to. False where nobody can tell. */
  busy(overMs: number): Promise<boolean>
  /** Whether over that time it wants neither a processor nor the disk. False where nobody can tell. */
  idle(overMs: number): Promise<boolean>
}

/** Nobody can tell. */
export const noPulse: Pulse = { frozen: () => false, busy: async () => false, idle: (overMs) => sleep(overMs, false) }
