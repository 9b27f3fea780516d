// Caps Lock and Num Lock of the guest while a batch types: a lock that would change what a key types is switched for this long.
// The guest reports its locks by the lights of its keyboard.
import { type EventEmitter, once } from 'node:events'
import { keyCodes } from '@dormouse/contract'
import type { Step } from './plan.ts'

/** A screen whose guest switches the lights of its keyboard; it emits `leds` then. */
interface Screen extends EventEmitter {
  readonly leds: number | undefined
  readonly isEnded: boolean
  /** Reads everything that the screen has sent. */
  refresh(): Promise<void>
}

interface Lock {
  name: string
  code: number
  /** Its bit in the lights. */
  bit: number
  /** How it must be for these keys to type what is written on them. */
  isOnFor: boolean
  keys: ReadonlySet<number>
}

/** Where letters are, on any layout. */
const letters = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f, 0x20, 0x21]
const moreLetters = [
  0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x56,
]
const keypad = Object.entries(keyCodes).flatMap(([name, code]) => (/^Numpad(\d|Decimal)$/.test(name) ? [code] : []))
const locks: readonly Lock[] = [
  { name: 'Caps Lock', code: keyCodes.CapsLock, bit: 4, isOnFor: false, keys: new Set([...letters, ...moreLetters]) },
  { name: 'Num Lock', code: keyCodes.NumLock, bit: 2, isOnFor: true, keys: new Set(keypad) },
]

/** How long a guest takes at most to switch a light. */
const lightMs = 3_000

/** The locks of one screen. Knows which of their keys a batch has pressed, which the lights may not show yet. */
export class Locks {
  readonly #screen: Screen
  /** The lights as they will be when the guest has taken the keys that were pressed, and until when that is awaited. */
  readonly #awaited = new Map<Lock, { isOn: boolean; until: number }>()
  /** Switched for a batch, to be switched back. */
  readonly #switched = new Set<Lock>()

  constructor(screen: Screen) {
    this.#screen = screen
  }

  /**
   * Makes the locks as these steps need them, and returns those that must stay so; throws if one cannot be. A lock that they press
   * is as the guest has it.
   */
  async prepare(
    steps: readonly Step[],
    press: (code: number) => Promise<void>,
    signal: AbortSignal,
  ): Promise<readonly Lock[]> {
    const pressed = pressedBy(steps)
    const needed: Lock[] = []
    for (const lock of locks) {
      if (pressed.has(lock.code)) await this.#switchBack(lock, press)
      else if ([...lock.keys].some((code) => pressed.has(code))) {
        await this.#require(lock, press, signal)
        needed.push(lock)
      }
    }
    return needed
  }

  /** Throws if something else has switched one of these meanwhile: what was typed since may be wrong. */
  requireUnchanged(needed: readonly Lock[]): void {
    if (this.#screen.leds === undefined) return
    for (const lock of needed) {
      if (this.#awaited.has(lock) || this.#isLit(lock) === lock.isOnFor) continue
      this.#switched.delete(lock)
      throw new Error(`${lock.name} was switched in the guest while the batch typed; check what has been typed`)
    }
  }

  /** A key was pressed, by a batch or for it. */
  pressed(code: number): void {
    const lock = locks.find((one) => one.code === code)
    if (!lock || this.#screen.leds === undefined) return
    const before = this.#awaited.get(lock)?.isOn ?? this.#isLit(lock)
    this.#awaited.set(lock, { isOn: !before, until: performance.now() + lightMs })
  }

  /** The end of a batch: every lock is as the guest had it. */
  async restore(press: (code: number) => Promise<void>): Promise<void> {
    for (const lock of [...this.#switched]) await this.#switchBack(lock, press)
  }

  async #require(lock: Lock, press: (code: number) => Promise<void>, signal: AbortSignal): Promise<void> {
    await this.#seen(lock, signal)
    if (this.#screen.leds === undefined || this.#isLit(lock) === lock.isOnFor || signal.aborted) return
    // Pressed twice, it is as it was.
    if (!this.#switched.delete(lock)) this.#switched.add(lock)
    await press(lock.code)
    await this.#seen(lock, signal)
    if (this.#isLit(lock) === lock.isOnFor || signal.aborted || this.#screen.isEnded) return
    this.#switched.delete(lock)
    const [now, wanted] = lock.isOnFor ? ['off', 'on'] : ['on', 'off']
    throw new Error(`${lock.name} is ${now} in the guest, and its key does not switch it ${wanted}; switch it there`)
  }

  async #switchBack(lock: Lock, press: (code: number) => Promise<void>): Promise<void> {
    if (this.#switched.delete(lock)) await press(lock.code)
  }

  /** Waits until the light is as its key must have made it. If it does not change in time, it is taken as true. */
  async #seen(lock: Lock, signal: AbortSignal): Promise<void> {
    const awaited = this.#awaited.get(lock)
    if (!awaited) return
    const either = AbortSignal.any([
      signal,
      AbortSignal.timeout(Math.max(1, Math.ceil(awaited.until - performance.now()))),
    ])
    while (this.#isLit(lock) !== awaited.isOn && !either.aborted && !this.#screen.isEnded)
      await once(this.#screen, 'leds', { signal: either }).catch(() => undefined)
    // What has come in time may wait to be read.
    if (either.aborted && !signal.aborted) await this.#screen.refresh().catch(() => undefined)
    this.#awaited.delete(lock)
  }

  #isLit({ bit }: Lock): boolean {
    return ((this.#screen.leds ?? 0) & bit) !== 0
  }
}

/** The keys that are pressed by these steps. */
const pressedBy = (steps: readonly Step[]): Set<number> =>
  new Set(
    steps.flatMap((step) => {
      if (step.type === 'paste') return [...pressedBy(step.keys)]
      return step.type === 'key' && step.down ? [step.code] : []
    }),
  )
