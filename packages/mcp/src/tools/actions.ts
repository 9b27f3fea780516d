// Actions with mouse and keyboard, as models write them: in the API's own words, or in those of the computer tools of Anthropic
// and of OpenAI, which models have learned. Pure. What it cannot read is a TypeError with the right form.
import type { InputAction } from '@dormouse/client'
import { didYouMean, keyNamed } from '@dormouse/contract'

type Fields = Record<string, unknown>
type Point = { x: number; y: number }
type Read = (fields: Given) => InputAction[]

const longestMs = 60_000
const mostTicks = 100
const pixelsPerTick = 100
const scrolledTicks = 3
const waitedMs = 2_000

export interface Acts {
  actions: InputAction[]
  /** What the last picture shows, if only a part was requested. */
  region?: Point & { width: number; height: number }
}

/** The actions of a call: an array, one action, or either as JSON text. */
export function readActions(given: unknown): Acts {
  const list = [typeof given === 'string' ? parsed(given) : given].flat()
  let region: Acts['region']
  const all = list.flatMap((one, i) => {
    try {
      return readAction(one, (zoomed) => {
        region = zoomed
      })
    } catch (error) {
      if (error instanceof TypeError) throw new TypeError(`actions[${i}]: ${error.message}`)
      throw error
    }
  })
  // A picture is taken at the end in any case.
  const acts = all.filter(({ type }) => type !== 'screenshot')
  return { actions: acts.length > 0 ? acts : all.slice(0, 1), ...(region && { region }) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new TypeError(`actions must be a list of objects such as ${example}, not text`)
  }
}

const example = '{"type": "click", "x": 512, "y": 300}'

function readAction(given: unknown, zoom: (region: Acts['region']) => void): InputAction[] {
  if (typeof given !== 'object' || given === null) throw new TypeError(`must be an object such as ${example}`)
  const fields = new Given(given as Fields)
  const name = fields.takeName()
  const read = Object.hasOwn(readers, name) ? readers[name] : undefined
  if (!read)
    throw new TypeError(`"${name}" is not an action${didYouMean(name, Object.keys(readers))}; the actions are ${own}`)
  const actions = read(fields)
  if (name === 'zoom') zoom(regionOf(fields))
  fields.refuseOthers()
  return actions
}

/** The fields of one action. Each reading takes all the words for one thing, so that what is left was meant for nothing. */
class Given {
  readonly #fields: Fields
  readonly #taken = new Set<string>()
  #name = ''

  constructor(fields: Fields) {
    this.#fields = fields
  }

  takeName(): string {
    const name = this.take('type', 'action')
    if (typeof name !== 'string') throw new TypeError(`needs a "type", as in ${example}`)
    this.#name = name
      .trim()
      .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
      .replaceAll(/[\s-]+/g, '_')
      .toLowerCase()
    return this.#name
  }

  /** The first of these that is given. */
  take(...names: string[]): unknown {
    for (const name of names) this.#taken.add(name)
    return names.map((name) => this.#fields[name]).find((value) => value !== undefined && value !== null)
  }

  number(...names: string[]): number | undefined {
    const value = this.take(...names)
    if (value === undefined) return undefined
    const number = typeof value === 'string' ? Number(value.trim() || Number.NaN) : value
    if (typeof number === 'number' && Number.isFinite(number)) return number
    throw new TypeError(`"${names[0]}" must be a number, not ${JSON.stringify(value)}`)
  }

  text(...names: string[]): string | undefined {
    const value = this.take(...names)
    if (value === undefined || typeof value === 'string') return value
    throw new TypeError(`"${names[0]}" must be text, not ${JSON.stringify(value)}`)
  }

  place(): Partial<Point> {
    const pair = this.take('coordinate', 'coordinates', 'position', 'point')
    const { x: givenX } = this.#fields
    if (Array.isArray(givenX)) return pointOf(this.take('x', 'y'), this.#name)
    const [x, y] = [this.number('x'), this.number('y')]
    if (pair !== undefined) return pointOf(pair, this.#name)
    if ((x === undefined) !== (y === undefined))
      throw new TypeError(`"${this.#name}" needs both "x" and "y", or neither`)
    return x === undefined || y === undefined ? {} : pointOf([x, y], this.#name)
  }

  requiredPlace(): Point {
    const { x, y } = this.place()
    return x === undefined || y === undefined ? this.missing('"x" and "y"', '"x": 512, "y": 300') : { x, y }
  }

  missing(what: string, how: string): never {
    throw new TypeError(`"${this.#name}" needs ${what}, as in {"type": "${this.#name}", ${how}}`)
  }

  /** Keys that are held meanwhile. */
  hold(): { hold?: string[] } {
    const keys = chords(this.take('hold', 'keys', 'modifiers', 'text', 'key')).flat()
    return keys.length > 0 ? { hold: keys } : {}
  }

  refuseOthers(): void {
    const other = Object.keys(this.#fields).find((name) => !this.#taken.has(name) && this.#fields[name] !== null)
    if (other !== undefined)
      throw new TypeError(`"${this.#name}" takes no "${other}"${didYouMean(other, this.#taken)}; leave it out`)
  }
}

/** `[1, 2]`, `{"x": 1, "y": 2}` or `"1, 2"`. */
function pointOf(given: unknown, name: string): Point {
  const pair: unknown = typeof given === 'string' ? (given.match(/-?\d+(\.\d+)?/g) ?? []) : given
  const values = Array.isArray(pair) ? pair : [(pair as Partial<Point>)?.x, (pair as Partial<Point>)?.y]
  const [x, y] = values.map((value) => (value === null || value === '' ? Number.NaN : Number(value)))
  if (values.length !== 2 || !Number.isFinite(x) || !Number.isFinite(y))
    throw new TypeError(`"${name}" needs a place such as [512, 300], not ${JSON.stringify(given)}`)
  return { x: Math.round(x!), y: Math.round(y!) }
}

/** Two corners, as Anthropic's tool has it. */
function regionOf(fields: Given): NonNullable<Acts['region']> {
  const given = fields.take('region')
  const [x0, y0, x1, y1] = Array.isArray(given) ? given.map(Number) : []
  if (![x0, y0, x1, y1].every(Number.isSafeInteger)) return fields.missing('a "region"', '"region": [0, 0, 640, 400]')
  return { x: x0!, y: y0!, width: x1! - x0!, height: y1! - y0! }
}

/** What is pressed one after the other: `ctrl+c`, `["ctrl", "c"]`, `"Down Down Return"`, `["ctrl+a", "ctrl+c"]`. */
function chords(given: unknown): string[][] {
  if (given === undefined || given === '') return []
  if (typeof given === 'string')
    return given === ' '
      ? [['Space']]
      : given
          .trim()
          .replaceAll(/(?<=\S)\s*\+\s+(?=\S)|(?<=\S)\s+\+\s*(?=\S)/g, '+')
          .split(/\s+/)
          .map(chordOf)
  if (!Array.isArray(given) || !given.every((key) => typeof key === 'string'))
    throw new TypeError(`keys must be names such as ["ctrl", "c"] or "ctrl+c", not ${JSON.stringify(given)}`)
  const each = given.map(chordOf)
  const isOne = each.length === 1 || each.every((keys) => keys.length === 1)
  return isOne ? (each.length > 0 ? [each.flat()] : []) : each
}

/** The keys of `ctrl+s` or `Ctrl-S`. The last one may be `+` itself. */
function chordOf(text: string): string[] {
  if (keyNamed(text)) return [text]
  const keys = (text.endsWith('++') ? [...text.slice(0, -2).split('+'), '+'] : text.split('+')).filter(Boolean)
  const parts = text.split('-')
  return keys.length === 1 && parts.length > 1 && parts.every((part) => keyNamed(part)) ? parts : keys
}

/** A model writes letters in capitals, and names Shift if it means it. */
const inLowerCase = (keys: string[]): string[] =>
  keys.length > 1 ? keys.map((key) => (/^[A-Z]$/.test(key) ? key.toLowerCase() : key)) : keys

const buttons = ['left', 'middle', 'right', 'back', 'forward'] as const
type Button = (typeof buttons)[number]

function buttonOf(fields: Given): Button | undefined {
  const given = fields.text('button')
  const button = given === 'wheel' ? 'middle' : given
  if (button === undefined || buttons.some((known) => known === button)) return button as Button | undefined
  throw new TypeError(`"button" must be ${buttons.join(', ')} or wheel, not "${button}"`)
}

const clicking =
  (preset?: Button, presses?: number): Read =>
  (fields) => {
    const button = buttonOf(fields) ?? preset
    const count = fields.number('count', 'clicks', 'num_clicks') ?? presses
    return [
      {
        type: 'click',
        ...fields.place(),
        ...(button && { button }),
        ...(count !== undefined && { count }),
        ...fields.hold(),
      },
    ]
  }

const pressing =
  (type: 'down' | 'up'): Read =>
  (fields) => {
    const button = buttonOf(fields) as 'left' | undefined
    return [{ type, ...fields.place(), ...(button && { button }) }]
  }

const move: Read = (fields) => [{ type: 'move', ...fields.requiredPlace(), ...fields.hold() }]

/** If no start is given, the drag begins at the pointer's position. */
const drag: Read = (fields) => {
  const button = buttonOf(fields) as 'left' | undefined
  const pressed = button && { button }
  const path = fields.take('path')
  const [start, end] = [
    fields.take('start_coordinate', 'from', 'start', 'startCoordinate'),
    fields.take('end_coordinate', 'to', 'end', 'endCoordinate'),
  ]
  const place = fields.place()
  const held = fields.hold()
  if (path !== undefined) {
    if (!Array.isArray(path) || path.length < 2) throw new TypeError('"path" must be a list of at least two places')
    return [{ type: 'drag', path: path.map((each) => pointOf(each, 'drag')), ...pressed, ...held }]
  }
  const last = end === undefined ? place : pointOf(end, 'drag')
  if (last.x === undefined || last.y === undefined)
    fields.missing('a "path"', '"path": [{"x": 10, "y": 20}, {"x": 300, "y": 200}]')
  const to = { x: last.x!, y: last.y! }
  const from = start !== undefined ? pointOf(start, 'drag') : end !== undefined ? place : {}
  if (from.x !== undefined && from.y !== undefined)
    return [{ type: 'drag', path: [{ x: from.x, y: from.y }, to], ...pressed, ...held }]
  return [
    { type: 'down', ...pressed },
    { type: 'move', ...to, ...held },
    { type: 'up', ...pressed },
  ]
}

const scrolling =
  (preset?: string): Read =>
  (fields) => {
    const place = fields.place()
    const [dx, dy] = [fields.number('dx'), fields.number('dy')]
    const pixels = [fields.number('scroll_x', 'delta_x', 'deltaX'), fields.number('scroll_y', 'delta_y', 'deltaY')]
    const direction = fields.text('scroll_direction', 'direction') ?? preset
    const amount = fields.number('scroll_amount', 'amount', 'clicks', 'ticks') ?? scrolledTicks
    const at = { type: 'scroll' as const, ...place, ...fields.hold() }
    if (dx !== undefined || dy !== undefined) return [{ ...at, dx: dx ?? 0, dy: dy ?? 0 }]
    if (pixels.some((value) => value !== undefined)) return [{ ...at, dx: ticksOf(pixels[0]), dy: ticksOf(pixels[1]) }]
    if (direction === undefined) return fields.missing('"dx" or "dy"', '"dy": 3')
    const by = directions.get(direction.toLowerCase())
    if (!by) throw new TypeError(`"scroll_direction" must be up, down, left or right, not "${direction}"`)
    const ticks = Math.min(mostTicks, amount)
    return [{ ...at, dx: by[0] * ticks, dy: by[1] * ticks }]
  }

const directions = new Map<string, readonly [number, number]>([
  ['up', [0, -1]],
  ['down', [0, 1]],
  ['left', [-1, 0]],
  ['right', [1, 0]],
])

/** Some movement is at least one tick. */
function ticksOf(pixels = 0): number {
  const ticks = Math.sign(pixels) * Math.max(1, Math.round(Math.abs(pixels) / pixelsPerTick))
  return pixels === 0 ? 0 : Math.max(-mostTicks, Math.min(mostTicks, ticks))
}

const type: Read = (fields) => {
  const text = fields.text('text', 'value', 'content')
  const [via, paste] = [fields.text('via') as 'auto' | undefined, chords(fields.take('paste')).flat()]
  if (text === undefined) return fields.missing('a "text"', '"text": "Hello"')
  return [{ type: 'type', text, ...(via && { via }), ...(paste.length > 0 && { paste }) }]
}

const pressKeys =
  (plain: (keys: string[]) => string[]): Read =>
  (fields) => {
    const all = chords(fields.take('keys', 'key', 'text', 'combo', 'combination'))
    const count = fields.number('count', 'repeat', 'presses')
    if (all.length === 0) return fields.missing('"keys"', '"keys": ["ctrl", "c"]')
    return all.map((keys) => ({ type: 'key', keys: plain(keys), ...(count !== undefined && { count }) }))
  }

const holdKeys: Read = (fields) => {
  const keys = chords(fields.take('keys', 'key', 'text')).flat()
  if (keys.length === 0) return fields.missing('"keys"', '"keys": ["shift"], "ms": 500')
  return [{ type: 'hold', keys, ms: msOf(fields, 1_000) }]
}

/** Other makers count in seconds. */
function msOf(fields: Given, preset: number): number {
  const [ms, secs] = [fields.number('ms', 'duration_ms', 'milliseconds'), fields.number('duration', 'seconds', 'time')]
  return Math.max(0, Math.min(longestMs, Math.round(ms ?? (secs === undefined ? preset : secs * 1_000))))
}

const press = pressKeys((keys) => keys)
const readers: Record<string, Read> = {
  move,
  ...{ mouse_move: move, move_mouse: move, move_to: move, hover: move },
  click: clicking(),
  ...{ left_click: clicking('left'), right_click: clicking('right'), middle_click: clicking('middle') },
  ...{ double_click: clicking('left', 2), triple_click: clicking('left', 3) },
  down: pressing('down'),
  up: pressing('up'),
  ...{ left_mouse_down: pressing('down'), mouse_down: pressing('down') },
  ...{ left_mouse_up: pressing('up'), mouse_up: pressing('up') },
  drag,
  ...{ left_click_drag: drag, click_drag: drag, drag_to: drag, drag_and_drop: drag },
  scroll: scrolling(),
  ...{ scroll_up: scrolling('up'), scroll_down: scrolling('down') },
  ...{ scroll_left: scrolling('left'), scroll_right: scrolling('right') },
  type,
  ...{ type_text: type, write: type, input_text: type },
  key: press,
  ...{ press_key: press, key_press: press, press, hotkey: press, keypress: pressKeys(inLowerCase) },
  hold: holdKeys,
  hold_key: holdKeys,
  wait: (fields) => [{ type: 'wait', ms: msOf(fields, waitedMs) }],
  sleep: (fields) => [{ type: 'wait', ms: msOf(fields, waitedMs) }],
  screenshot: () => [{ type: 'screenshot' }],
  take_screenshot: () => [{ type: 'screenshot' }],
  zoom: () => [{ type: 'screenshot' }],
  cursor_position: () => [{ type: 'wait', ms: 0 }],
}

const own = 'move, click, down, up, drag, scroll, type, key, hold, wait and screenshot'
