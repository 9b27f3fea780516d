// The screens of simulated guests, one per desktop, each made when it is first used.
import type { DesktopId } from '@dormouse/contract'
import { SimulatedScreen } from './screen.ts'

export class SimulatedScreens {
  readonly #hasClipboard: () => boolean
  readonly #screens = new Map<DesktopId, SimulatedScreen>()

  constructor(hasClipboard: () => boolean) {
    this.#hasClipboard = hasClipboard
  }

  of(desktopId: DesktopId): SimulatedScreen {
    const screen = this.#screens.get(desktopId) ?? new SimulatedScreen(this.#hasClipboard)
    this.#screens.set(desktopId, screen)
    return screen
  }
}
