// Where an awake desktop runs, and why a call to its guest has failed.
import { Refusal, refuse } from '@dormouse/contract'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'
import { type RefusedAt, withPath } from './refused-paths.ts'

export class AwakeDesktops {
  readonly #desktops: Desktops

  constructor(desktops: Desktops) {
    this.#desktops = desktops
  }

  /** The desktop's host and generation; refuses where it is not the caller's, or not awake. */
  async require(caller: Customer, desktopId: string) {
    return { desktopId, ...requireAwake(await this.#desktops.get(caller, desktopId)) }
  }

  /**
   * Throws why a command failed, with the path that the guest's file system refused. A desktop that is hibernated for a move does
   * not run on its host, and soon does again.
   */
  async whyNot(desktopId: string, error: unknown, at?: RefusedAt): Promise<never> {
    if (!(error instanceof Refusal)) throw error
    if (error.code === 'not_awake' && (await this.#desktops.isMoving(desktopId)))
      refuse('guest_unavailable', 'the desktop is moving between hosts; retry')
    throw at ? withPath(error, at) : error
  }
}
