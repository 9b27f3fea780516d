// A guest's activity as its host sees it: distinguishes a busy guest from one that will not answer. A busy guest uses processor
// time; one that hangs or is stopped does not.
import { setTimeout as sleep } from 'node:timers/promises'

export interface GuestActivity {
  /** Whether its process was stopped from outside: then nothing in it continues until it is resumed. */
  frozen(): boolean
  /** Whether the guest runs or wants to, over the next `overMs`. False if that is not known. */
  busy(overMs: number): Promise<boolean>
  /** Whether it wants neither a processor nor the disk over that time. False if that is not known. */
  idle(overMs: number): Promise<boolean>
}

/** For a guest whose activity is not known. */
export const unknownActivity: GuestActivity = {
  frozen: () => false,
  busy: async () => false,
  idle: (overMs) => sleep(overMs, false),
}
