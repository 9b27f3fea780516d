// Turns the actions of a batch into events of keys and pointer, or refuses with what prevents it, before any is sent. Pure.
import {
  type InputAction,
  type InputRefusal,
  inputMaxMs,
  type Key,
  keyCodes,
  keyNamed,
  type Point,
  type Size,
} from '@dormouse/contract'
import { dragBetween, onScreen, pathBetween } from './coordinates.ts'
import { charactersOf, type Layout, type Modifier, type Stroke } from './layouts.ts'
import { qemuKeyMs } from './rfb-messages.ts'

export type Step =
  | { type: 'key'; code: number; down: boolean }
  | { type: 'pointer'; at: Point; mask: number }
  | { type: 'pause'; ms: number }
  /** The clipboard gets this text, these keys are pressed, and the clipboard gets its own text back. */
  | { type: 'paste'; text: string; keys: Step[] }

/** What one action does, in order. */
export type Planned = readonly Step[]

export interface PlanOptions {
  layout: Layout
  screen: Size
  /** Null for the screen itself. */
  space: Size | null
  paceMs: number
  /** Where the pointer is, as far as known. */
  pointer: Point | undefined
  /** Whether the guest shares its clipboard. */
  clipboard: boolean
}

export type Plan = { planned: Planned[]; takesMs: number } | { refused: InputRefusal }

const buttons = { left: 1, middle: 2, right: 4 } as const
const wheel = { up: 8, down: 16 } as const
/** Browsers and file managers take these keys for the buttons, which a tablet lacks. */
const buttonKeys = { back: keyCodes.BrowserBack, forward: keyCodes.BrowserForward } as const
const modifiers: Record<Modifier, number> = { shift: keyCodes.Shift, altGr: keyCodes.AltGraph }
/** How long a paste takes at most beside its keys, in a guest that is not overloaded. */
const pasteMs = 2_000

/** The events of all actions, or the first reason why one cannot be done. */
export function plan(actions: readonly InputAction[], options: PlanOptions): Plan {
  const planner = new Planner(options)
  const planned: Planned[] = []
  for (const [index, action] of actions.entries()) {
    try {
      planned.push(planner.action(action))
    } catch (error) {
      if (error instanceof CannotPlan) return { refused: { ...nothing, ...error.what, index } }
      throw error
    }
  }
  const takesMs = timeOf(planned.flat(), options.paceMs)
  if (takesMs > inputMaxMs) return { refused: { ...nothing, why: 'too_long', takesMs } }
  return { planned, takesMs }
}

const nothing = { index: null, character: null, screen: null, takesMs: null }

class CannotPlan extends Error {
  readonly what: Partial<InputRefusal> & Pick<InputRefusal, 'why'>

  constructor(what: CannotPlan['what']) {
    super(what.why)
    this.what = what
  }
}

function timeOf(steps: Step[], paceMs: number): number {
  let [sum, mask] = [0, 0]
  for (const step of steps) {
    sum += costOf(step, paceMs, mask)
    if (step.type === 'pointer') mask = step.mask
  }
  return sum
}

function costOf(step: Step, paceMs: number, mask: number): number {
  if (step.type === 'pause') return step.ms
  if (step.type === 'paste') return pasteMs + step.keys.length * paceMs
  return pauseAfter(step, paceMs, mask)
}

/** Guests take buttons that change faster for worn contacts, and drop the change (libinput: within 25 ms). */
const buttonMs = 30
const allButtons = buttons.left | buttons.middle | buttons.right

/** How long to wait behind an event. `mask`: the buttons that were held before it. */
export function pauseAfter(step: Step & { type: 'key' | 'pointer' }, paceMs: number, mask: number): number {
  if (step.type === 'key') return Math.max(paceMs, qemuKeyMs)
  return ((step.mask ^ mask) & allButtons) !== 0 ? Math.max(paceMs, buttonMs) : paceMs
}

class Planner {
  readonly #options: PlanOptions
  #pointer: Point | undefined
  #mask = 0

  constructor(options: PlanOptions) {
    this.#options = options
    this.#pointer = options.pointer
  }

  action(action: InputAction): Step[] {
    switch (action.type) {
      case 'move':
        return this.#holding(action.hold, () => this.#move(action))
      case 'click':
        return this.#holding(action.hold, () => this.#click(action))
      case 'down':
      case 'up':
        return [...this.#moveIfTo(action), this.#button(action.button ?? 'left', action.type === 'down')]
      case 'drag':
        return this.#holding(action.hold, () => this.#drag(action))
      case 'scroll':
        return this.#holding(action.hold, () => this.#scroll(action))
      case 'type':
        return this.#type(action)
      case 'key':
        return repeated(action.count ?? 1, this.#chord(action.keys))
      case 'hold':
        return this.#holding(action.keys, () => [{ type: 'pause', ms: action.ms }])
      case 'wait':
        return [{ type: 'pause', ms: action.ms }]
      case 'screenshot':
        return []
    }
  }

  #move(to: Point, path: (from: Point, to: Point) => Point[] = pathBetween): Step[] {
    const { screen, space } = this.#options
    const target = onScreen(to, space ?? screen, screen)
    if (!target) throw new CannotPlan({ why: 'outside', screen })
    const places = this.#pointer ? path(this.#pointer, target) : [target]
    this.#pointer = target
    return places.map((at) => ({ type: 'pointer', at, mask: this.#mask }))
  }

  #moveIfTo({ x, y }: { x?: number | undefined; y?: number | undefined }): Step[] {
    return x === undefined || y === undefined ? [] : this.#move({ x, y })
  }

  /** A pointer whose place is not known is put in the corner: an event needs a place. */
  #button(button: keyof typeof buttons, down: boolean): Step {
    const bit = buttons[button]
    this.#mask = down ? this.#mask | bit : this.#mask & ~bit
    return this.#event()
  }

  #event(mask = this.#mask): Step {
    this.#pointer ??= { x: 0, y: 0 }
    return { type: 'pointer', at: this.#pointer, mask }
  }

  #click({ button = 'left', count = 1, ...at }: Extract<InputAction, { type: 'click' }>): Step[] {
    const moved = this.#moveIfTo(at)
    if (button === 'back' || button === 'forward') return [...moved, ...repeated(count, tap(buttonKeys[button]))]
    return [...moved, ...repeated(count, [this.#button(button, true), this.#button(button, false)])]
  }

  #drag({ path: [start, ...rest], button = 'left' }: Extract<InputAction, { type: 'drag' }>): Step[] {
    const steps = this.#move(start!)
    steps.push(this.#button(button, true))
    for (const to of rest) steps.push(...this.#move(to, dragBetween))
    // If a drag ends too fast, programs take it for a click.
    steps.push(this.#event())
    steps.push(this.#button(button, false))
    return steps
  }

  /** To the side with Shift: the wheel of a tablet has one axis. */
  #scroll({ dx = 0, dy = 0, ...at }: Extract<InputAction, { type: 'scroll' }>): Step[] {
    const turn = (ticks: number) =>
      repeated(Math.abs(ticks), [this.#event(this.#mask | (ticks < 0 ? wheel.up : wheel.down)), this.#event()])
    const sideways = dx === 0 ? [] : pressing([keyCodes.Shift], turn(dx))
    return [...this.#moveIfTo(at), ...turn(dy), ...sideways]
  }

  #type({ text, via = 'auto', paste = ['Control', 'v'] }: Extract<InputAction, { type: 'type' }>): Step[] {
    const chars = charactersOf(text)
    const { layout, clipboard } = this.#options
    const isMissing = (char: string) => via === 'clipboard' || !layout.has(char)
    const missing = chars.find(isMissing)
    if (missing !== undefined && (via === 'keys' || !clipboard)) {
      throw new CannotPlan(via === 'clipboard' ? { why: 'no_clipboard' } : { why: 'character', character: missing })
    }
    const steps: Step[] = []
    const runs = via === 'clipboard' ? [{ isPasted: true, chars }] : runsOf(chars, isMissing)
    for (const run of runs) {
      if (run.isPasted) steps.push({ type: 'paste', text: run.chars.join(''), keys: this.#chord(paste) })
      else for (const char of run.chars) for (const stroke of layout.get(char)!) steps.push(...typed(stroke))
    }
    return steps
  }

  /** The keys pressed one after the other, and released in the opposite order. */
  #chord(keys: readonly string[]): Step[] {
    return pressing(this.#codes(keys), [])
  }

  #holding(keys: readonly string[] | undefined, work: () => Step[]): Step[] {
    return keys ? pressing(this.#codes(keys), work()) : work()
  }

  #codes(keys: readonly string[]): number[] {
    const codes = keys.flatMap((key) => this.#codesOf(keyNamed(key)!))
    return [...new Set(codes)]
  }

  #codesOf(key: Key): number[] {
    if ('name' in key) return [keyCodes[key.name]]
    const strokes = this.#options.layout.get(key.char)
    if (!strokes) throw new CannotPlan({ why: 'character', character: key.char })
    const [{ code, with: held }] = strokes as [Stroke]
    return [...held.map((one) => modifiers[one]), code]
  }
}

const key = (code: number, down: boolean): Step => ({ type: 'key', code, down })
const tap = (code: number): Step[] => [key(code, true), key(code, false)]

const pressing = (codes: readonly number[], work: Step[]): Step[] => [
  ...codes.map((code) => key(code, true)),
  ...work,
  ...codes.toReversed().map((code) => key(code, false)),
]

const typed = ({ code, with: held }: Stroke): Step[] => pressing([...held.map((one) => modifiers[one]), code], [])

const repeated = <T>(count: number, steps: T[]): T[] => Array.from({ length: count }, () => steps).flat()

/**
 * The text in runs that are pasted or typed. What is between two line ends or tabs is one or the other: a program inserts what is
 * pasted some time later, so that keys could overtake it. Line ends and tabs are keys, since a form or a shell obeys them.
 */
function runsOf(chars: string[], isMissing: (char: string) => boolean): { isPasted: boolean; chars: string[] }[] {
  const runs: { isPasted: boolean; chars: string[] }[] = []
  for (const part of partsOf(chars)) {
    const isPasted = part.some(isMissing)
    const last = runs.at(-1)
    if (last?.isPasted === isPasted && !isPasted) last.chars.push(...part)
    else runs.push({ isPasted, chars: part })
  }
  return runs
}

/** Each line end and tab alone, and what is between them. */
function partsOf(chars: string[]): string[][] {
  const parts: string[][] = []
  let isOpen = false
  for (const char of chars) {
    const isKey = char === '\n' || char === '\t'
    if (isOpen && !isKey) parts.at(-1)!.push(char)
    else parts.push([char])
    isOpen = !isKey
  }
  return parts
}
