// How many calls of one desktop may be at work here at once: whoever asks much of his own takes nothing from the
// neighbours, and nothing from the commands that wake and hibernate, which are not counted.
import { type CommandName, type DesktopId, refuse } from '@dormouse/contract'

const guest = { lane: 'guest', most: 64, what: 'commands and transfers' }
const lanes: Partial<Record<CommandName, typeof guest>> = {
  'guest.exec': guest,
  'guest.writeFile': guest,
  'guest.readFile': guest,
  'stream.picture': { lane: 'picture', most: 4, what: 'pictures' },
}

export class CallsAtOnce {
  readonly #counts = new Map<string, number>()

  /** Counts the call until it is disposed; refuses one too many. */
  enter(name: CommandName, desktopId: DesktopId | undefined): Disposable {
    const lane = lanes[name]
    if (!lane || !desktopId) return { [Symbol.dispose]: () => undefined }
    const key = `${lane.lane} ${desktopId}`
    const count = this.#counts.get(key) ?? 0
    if (count >= lane.most)
      refuse('guest_unavailable', `${count} ${lane.what} of this desktop are under way; try again, fewer at once`)
    this.#counts.set(key, count + 1)
    return { [Symbol.dispose]: () => this.#leave(key) }
  }

  #leave(key: string): void {
    const left = (this.#counts.get(key) ?? 1) - 1
    if (left > 0) this.#counts.set(key, left)
    else this.#counts.delete(key)
  }
}
