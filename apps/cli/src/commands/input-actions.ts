// The actions of a batch of input, from the arguments of the command. Pure.
import type { InputAction } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'

export interface ActionOptions {
  at?: { x: number; y: number }
  button?: 'left' | 'middle' | 'right' | 'back' | 'forward'
  count?: number
  hold?: string[]
  paste?: string[]
}

/** Throws CliError if the action is not known, or its values are not what it takes. */
export function actionsOf(
  action: string,
  values: string[],
  { button, count, hold, at, paste }: ActionOptions,
): InputAction[] {
  const held = hold && { hold }
  const place = () => (values[0] === undefined ? {} : point(values[0]))
  const pressed = button as 'left' | undefined
  switch (action) {
    case 'click':
      return [{ type: 'click', ...place(), button, count, ...held }]
    case 'down':
    case 'up':
      return [{ type: action, ...place(), button: pressed }]
    case 'move':
      return [{ type: 'move', ...point(required(values, 0, '<x,y>')), ...held }]
    case 'drag':
      return [{ type: 'drag', path: values.map(point), button: pressed, ...held }]
    case 'scroll': {
      const [dx, dy] = pair(required(values, 0, '<right,down>'))
      return [{ type: 'scroll', ...at, dx, dy, ...held }]
    }
    case 'type':
      return [{ type: 'type', text: required([values.join(' ')], 0, '<text>'), paste }]
    case 'key':
      required(values, 0, '<key+key>')
      return values.map((keys) => ({ type: 'key', keys: chord(keys), count }))
    case 'hold':
      return [{ type: 'hold', keys: chord(required(values, 0, '<key+key>')), ms: msOf(values[1]) }]
    case 'wait':
      return [{ type: 'wait', ms: msOf(values[0]) }]
    default:
      return wrong(
        `"${action}" is not an action; it must be click, down, up, move, drag, scroll, type, key, hold or wait`,
      )
  }
}

function required(values: string[], at: number, what: string): string {
  const value = values[at]
  if (value) return value
  return wrong(`the action takes ${what}`)
}

const msOf = (text = ''): number =>
  /^\d{1,6}$/.test(text) ? Number(text) : wrong('the action takes <ms>, a whole number')

function pair(text: string): [number, number] {
  const [, x, y] = /^(-?\d+),(-?\d+)$/.exec(text) ?? []
  if (x === undefined || y === undefined) return wrong(`"${text}" must be two whole numbers, such as 100,200`)
  return [Number(x), Number(y)]
}

export function point(text: string): { x: number; y: number } {
  const [x, y] = pair(text)
  return { x, y }
}

/** `ctrl+s`; the last key may be `+`. */
export function chord(text: string): string[] {
  if (text === '+') return ['+']
  return (text.endsWith('++') ? [...text.slice(0, -2).split('+'), '+'] : text.split('+')).filter(Boolean)
}

function wrong(message: string): never {
  throw new CliError(message, '`dormouse input --help` shows all actions', exitCodes.usage)
}
