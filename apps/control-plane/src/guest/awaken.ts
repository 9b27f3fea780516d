// Calls that found their desktop asleep, and may go on once it is awake. Knows not who wakes it.
import type { UseClass, WakeWish, WokeJson } from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'
import type { Customer } from '../principals/service.ts'

/** A call that needs the guest of a desktop. */
export interface Use {
  caller: Customer
  desktopId: string
  class: UseClass
  /** What the call itself says; undefined: the desktop's `wake_on` decides. */
  wish: WakeWish | undefined
  requestId: string
  /** Aborted when the client disconnects. Called once the call waits. */
  gone(): AbortSignal
  /** Whether the response has begun, so that the call cannot be repeated. */
  hasAnswered(): boolean
  woke(how: WokeJson): void
}

/** Wakes the desktop that a call has found asleep. False if it failed for another reason, or may not wake the desktop. */
export type Awaken = (error: unknown) => Promise<boolean>

/** Makes that for each call. The module that wakes desktops is given later, or never: then no call wakes one. */
export class Awakener {
  #make: ((use: Use) => Awaken) | undefined

  give(make: (use: Use) => Awaken): void {
    this.#make = make
  }

  for(use: Use): Awaken | undefined {
    return this.#make?.(use)
  }
}

const ofRequests = new WeakMap<FastifyRequest, Awaken>()

/** For a request whose body can be read only once: its service wakes the desktop before that. */
export const giveAwaken = (request: FastifyRequest, awaken: Awaken): void => void ofRequests.set(request, awaken)

export const awakenOf = (request: FastifyRequest): Awaken | undefined => ofRequests.get(request)

/** Does the work, again after each wake. It must not have begun if it fails because the desktop is asleep. */
export async function awakening<T>(awaken: Awaken | undefined, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(await awaken?.(error))) throw error
    }
  }
}
