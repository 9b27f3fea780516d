// What went wrong in guests lately, as heartbeats repeat it for a minute. More of the same kind in that minute is added up, and
// said in the next one: so a desktop has at most one of each kind in a heartbeat, however often it fails.
import { type DesktopId, type GuestTrouble, mostTroubles } from '@dormouse/contract'

type Told = Partial<Pick<GuestTrouble, 'process' | 'where' | 'path'>>
type Kind = 'out_of_memory' | 'disk_full'

interface Said {
  trouble: GuestTrouble
  /** By the monotonic clock. */
  saidAt: number
  /** What came after it. */
  next: GuestTrouble | undefined
}

const saidForMs = 60_000

export class Troubles {
  readonly #said = new Map<string, Said>()
  readonly #now: () => number

  /** The clock is monotonic. */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  note(desktopId: DesktopId, kind: Kind, told: Told): void {
    const key = `${desktopId} ${kind}`
    const before = this.#said.get(key)
    const at = Math.max(Date.now(), (before?.trouble.at ?? 0) + 1)
    const kills = kind === 'out_of_memory' ? 1 : 0
    const trouble = { desktopId, kind, at, process: null, where: null, path: null, kills, ...told }
    if (before) before.next = { ...trouble, kills: kills + (before.next?.kills ?? 0) }
    else if (this.#said.size < mostTroubles) this.#said.set(key, { trouble, saidAt: this.#now(), next: undefined })
  }

  current(): GuestTrouble[] {
    const now = this.#now()
    for (const [key, { saidAt, next }] of this.#said) {
      if (now - saidAt < saidForMs) continue
      if (next) this.#said.set(key, { trouble: next, saidAt: now, next: undefined })
      else this.#said.delete(key)
    }
    return [...this.#said.values()].map(({ trouble }) => trouble)
  }
}
