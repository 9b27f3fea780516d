// Turns the computer-use actions of Anthropic's and OpenAI's models into actions of `desktop.input`. Pure.
import type { InputBody, PictureSpec } from '@dormouse/contract'
import { didYouMean } from '@dormouse/contract/nearest'

export type InputAction = InputBody['actions'][number]

/** What `desktop.input` takes in place of a list of actions. */
export interface InputBatch {
  actions: InputAction[]
  /** The picture that the model gets; a `screenshot` action takes the whole screen. */
  screenshot?: PictureSpec
}

type Pair = readonly [number, number]

/** An action of Anthropic's computer tool, as the model's `tool_use` has it in `input`. */
export interface AnthropicAction {
  action: string
  coordinate?: readonly number[] | null
  start_coordinate?: readonly number[] | null
  text?: string | null
  /** Seconds. */
  duration?: number | null
  scroll_direction?: string | null
  scroll_amount?: number | null
  /** x0, y0, x1, y1. */
  region?: readonly number[] | null
}

const longestMs = 60_000
const mostTicks = 100

/**
 * Throws TypeError on an action that it does not know, and on one that lacks or misspells a field. `cursor_position` is an empty wait: the
 * result has the pointer. A button that is held at the end of a batch is released, so `left_mouse_down` needs the actions up to
 * `left_mouse_up` in the same batch.
 */
export function fromAnthropic(given: AnthropicAction | readonly AnthropicAction[]): InputBatch {
  return joined([given].flat().map(ofAnthropic))
}

const anthropicFields = [
  ...['action', 'coordinate', 'start_coordinate', 'text', 'duration', 'scroll_direction', 'scroll_amount', 'region'],
]

function ofAnthropic(given: AnthropicAction): InputBatch {
  refuseMisspelt(given, anthropicFields)
  const { action, text, duration } = given
  const make = anthropic[action]
  if (!make)
    throw new TypeError(`the action "${action}" is unknown; known actions are ${Object.keys(anthropic).join(', ')}`)
  if (action === 'zoom') return { actions: [{ type: 'screenshot' }], screenshot: { region: regionOf(given) } }
  const ms = Math.min(longestMs, Math.round((duration ?? 1) * 1_000))
  const at = given.coordinate ? pointOf(given, 'coordinate') : {}
  const hold = text ? chordOf(text) : undefined
  return { actions: make({ given, at, ms, ...(hold && { hold }) }) }
}

interface Parts {
  given: AnthropicAction
  /** Empty if the pointer stays. */
  at: { x?: number; y?: number }
  ms: number
  hold?: string[]
}

const clicking =
  (button: 'left' | 'right' | 'middle', count: number) =>
  ({ at, hold }: Parts): InputAction[] => [{ type: 'click', button, count, ...at, ...(hold && { hold }) }]

const anthropic: Record<string, (parts: Parts) => InputAction[]> = {
  key: ({ given }) =>
    textOf(given)
      .trim()
      .split(/\s+/)
      .map((one) => ({ type: 'key', keys: chordOf(one) })),
  hold_key: ({ given, ms }) => [{ type: 'hold', keys: chordOf(textOf(given)), ms }],
  type: ({ given }) => [{ type: 'type', text: textOf(given) }],
  cursor_position: () => [{ type: 'wait', ms: 0 }],
  mouse_move: ({ given }) => [{ type: 'move', ...pointOf(given, 'coordinate') }],
  left_mouse_down: ({ at }) => [{ type: 'down', button: 'left', ...at }],
  left_mouse_up: ({ at }) => [{ type: 'up', button: 'left', ...at }],
  left_click: clicking('left', 1),
  right_click: clicking('right', 1),
  middle_click: clicking('middle', 1),
  double_click: clicking('left', 2),
  triple_click: clicking('left', 3),
  left_click_drag: ({ given, hold }) => [
    {
      type: 'drag',
      path: [pointOf(given, 'start_coordinate'), pointOf(given, 'coordinate')],
      button: 'left',
      ...(hold && { hold }),
    },
  ],
  scroll: ({ given, at, hold }) => [{ type: 'scroll', ...at, ...ticksOf(given), ...(hold && { hold }) }],
  wait: ({ ms }) => [{ type: 'wait', ms }],
  screenshot: () => [{ type: 'screenshot' }],
  zoom: () => [{ type: 'screenshot' }],
}

function textOf({ action, text }: AnthropicAction): string {
  return text ?? missing(action, 'text')
}

function pointOf(given: AnthropicAction, field: 'coordinate' | 'start_coordinate'): { x: number; y: number } {
  const [x, y] = numbersOf(given, field, 2) as unknown as Pair
  return { x: Math.round(x), y: Math.round(y) }
}

/** Requires this many numbers. */
function numbersOf(given: AnthropicAction, field: 'coordinate' | 'start_coordinate' | 'region', count: number) {
  const numbers = given[field]
  const isValid = Array.isArray(numbers) && numbers.length === count && numbers.every((n) => Number.isFinite(n))
  return isValid ? (numbers as readonly number[]) : missing(given.action, field)
}

function ticksOf({ action, scroll_direction, scroll_amount }: AnthropicAction): { dx: number; dy: number } {
  const ticks = Math.min(mostTicks, scroll_amount ?? missing(action, 'scroll_amount'))
  const by: Record<string, Pair> = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }
  const [dx, dy] = by[scroll_direction ?? ''] ?? missing(action, 'scroll_direction')
  return { dx: dx * ticks, dy: dy * ticks }
}

function regionOf(given: AnthropicAction): NonNullable<PictureSpec['region']> {
  const [x0, y0, x1, y1] = numbersOf(given, 'region', 4) as readonly [number, number, number, number]
  return { x: x0, y: y0, width: x1 - x0, height: y1 - y0 }
}

/** The keys of `ctrl+s`. The last one may be `+` itself. */
function chordOf(text: string): string[] {
  const keys = text.replace(/\+\+$|^\+$/, (end) => (end === '+' ? 'plus' : '+plus')).split('+')
  return keys.filter((key) => key !== '')
}

/** An action of OpenAI's computer tool, as a `computer_call` has it in `action`. */
export interface OpenAIAction {
  type: string
  x?: number
  y?: number
  button?: string
  path?: readonly { x: number; y: number }[]
  /** Pixels. */
  scroll_x?: number
  scroll_y?: number
  /** Or as one text, such as `ctrl+c`. */
  keys?: readonly string[] | string | null
  text?: string
}

/** What a tick of the wheel scrolls in most programs. */
const pixelsPerTick = 100
const waitMs = 2_000

/** Throws TypeError on an action that it does not know, and on one that lacks or misspells a field. */
export function fromOpenAI(given: OpenAIAction | readonly OpenAIAction[]): InputBatch {
  return joined([given].flat().map((action) => ({ actions: [ofOpenAI(action)] })))
}

const openaiFields = ['type', 'x', 'y', 'button', 'path', 'scroll_x', 'scroll_y', 'keys', 'text']

function ofOpenAI(given: OpenAIAction): InputAction {
  refuseMisspelt(given, openaiFields)
  const make = openai[given.type]
  if (!make)
    throw new TypeError(`the action "${given.type}" is unknown; known actions are ${Object.keys(openai).join(', ')}`)
  const keys = (typeof given.keys === 'string' ? chordOf(given.keys) : (given.keys ?? [])).map(plainKey)
  return make(given, keys.length > 0 ? { hold: keys } : {})
}

type OfOpenAI = (given: OpenAIAction, held: { hold?: string[] }) => InputAction

const openai: Record<string, OfOpenAI> = {
  click: (given, held) => ({ type: 'click', ...placeOf(given), button: buttonOf(given), count: 1, ...held }),
  double_click: (given, held) => ({ type: 'click', ...placeOf(given), button: 'left', count: 2, ...held }),
  drag: ({ type, path }, held) => ({
    type: 'drag',
    path: (path ?? missing(type, 'path')).map(({ x, y }) => placeOf({ type, x, y })),
    button: 'left',
    ...held,
  }),
  keypress: ({ type }, { hold }) => ({ type: 'key', keys: hold ?? missing(type, 'keys') }),
  move: (given, held) => ({ type: 'move', ...placeOf(given), ...held }),
  screenshot: () => ({ type: 'screenshot' }),
  scroll: (given, held) => ({
    type: 'scroll',
    ...placeOf(given),
    dx: ticksFrom(given.scroll_x),
    dy: ticksFrom(given.scroll_y),
    ...held,
  }),
  type: ({ type, text }) => ({ type: 'type', text: text ?? missing(type, 'text') }),
  wait: () => ({ type: 'wait', ms: waitMs }),
}

const placeOf = ({ type, x, y }: OpenAIAction): { x: number; y: number } => ({
  x: Number.isFinite(x) ? Math.round(x!) : missing(type, 'x'),
  y: Number.isFinite(y) ? Math.round(y!) : missing(type, 'y'),
})

const openaiButtons = { left: 'left', right: 'right', wheel: 'middle', back: 'back', forward: 'forward' } as const

const buttonOf = ({ type, button = 'left' }: OpenAIAction) =>
  openaiButtons[button as keyof typeof openaiButtons] ?? missing(type, 'button')

/** Some movement is at least one tick. */
function ticksFrom(pixels = 0): number {
  const ticks = Math.sign(pixels) * Math.max(1, Math.round(Math.abs(pixels) / pixelsPerTick))
  return pixels === 0 ? 0 : Math.max(-mostTicks, Math.min(mostTicks, ticks))
}

/** A model writes letters in capitals, and names Shift if it means it. */
const plainKey = (key: string): string => (/^[A-Z]$/.test(key) ? key.toLowerCase() : key)

/** A picture of what is in the middle of a batch is taken at its end. */
function joined(batches: readonly InputBatch[]): InputBatch {
  const all = batches.flatMap(({ actions }) => actions)
  const actions = all.filter(({ type }, i) => type !== 'screenshot' || i === all.length - 1)
  const screenshot = batches.findLast((batch) => batch.screenshot)?.screenshot
  const isWanted = screenshot ?? (all.length > actions.length ? {} : undefined)
  return { actions, ...(isWanted && { screenshot: isWanted }) }
}

/** A field of later models is ignored; a misspelt one would make another action, such as a click at the pointer's position. */
function refuseMisspelt(given: object, known: readonly string[]): void {
  if (typeof given !== 'object' || given === null) throw new TypeError('an action must be an object')
  for (const field of Object.keys(given)) {
    const like = known.includes(field) ? '' : didYouMean(field, known)
    if (like) throw new TypeError(`the action has an unknown field "${field}"${like}`)
  }
}

function missing(action: string, field: string): never {
  throw new TypeError(`the action "${action}" needs a valid \`${field}\``)
}
