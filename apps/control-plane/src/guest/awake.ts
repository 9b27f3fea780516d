// Where an awake desktop runs, and why a call to its guest has failed.
import { type DesktopState, Refusal, refuse } from '@dormouse/contract'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'
import { type RefusedAt, withPath } from './refused-paths.ts'

export class AwakeDesktops {
  readonly #desktops: Desktops

  constructor(desktops: Desktops) {
    this.#desktops = desktops
  }

  /** The desktop's host and generation; refuses if it is not the caller's, or not awake. */
  async require(caller: Customer, desktopId: string) {
    return { desktopId, ...requireAwake(await this.#desktops.get(caller, desktopId)) }
  }

  /**
   * Throws why a command failed, with the path that the guest's file system refused. A guest may be silent because its desktop has
   * left `awake` meanwhile: the sentence says so. A desktop that is hibernated for a move soon runs again.
   */
  async whyNot(desktopId: string, error: unknown, at?: RefusedAt): Promise<never> {
    if (!(error instanceof Refusal)) throw error
    if (error.code === 'not_awake' || error.code === 'guest_unavailable') {
      if (await this.#desktops.isMoving(desktopId))
        refuse('guest_unavailable', 'the desktop is moving between hosts; retry')
      const state = await this.#desktops.stateOf(desktopId)
      if (error.code === 'guest_unavailable' && state !== 'awake') refuse('guest_unavailable', leftAwake(state))
    }
    throw at ? withPath(error, at) : error
  }
}

const leftAwake = (state: DesktopState | undefined): string =>
  state === 'hibernating' || state === 'hibernated'
    ? `the desktop is ${state}; wake it, then repeat the request`
    : 'the desktop is no longer awake; check its state, then repeat the request'
