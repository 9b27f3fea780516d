// Guarantee: a batch is planned whole before its first event: each action does what its name says, everything that is pressed
// is released, and what cannot be done is refused, with the action that prevents it.
import { type InputAction, inputAction, keyCodes } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { layoutNamed } from './layouts.ts'
import { type Plan, type PlanOptions, plan, type Step } from './plan.ts'

const options: PlanOptions = {
  layout: layoutNamed('us'),
  screen: { width: 1280, height: 800 },
  space: null,
  paceMs: 20,
  pointer: { x: 10, y: 10 },
  clipboard: false,
}

function stepsOf(made: Plan): Step[] {
  if ('refused' in made) throw new Error(`refused: ${made.refused.why}`)
  return made.planned.flat()
}

/** Short: keys by name with + or -, the pointer by place and mask. */
const names = new Map<number, string>(Object.entries(keyCodes).map(([name, code]) => [code, name]))
const shortly = (step: Step): string => {
  if (step.type === 'key') return `${step.down ? '+' : '-'}${names.get(step.code) ?? step.code.toString(16)}`
  if (step.type === 'pointer') return `${step.at.x},${step.at.y}:${step.mask}`
  return step.type === 'pause' ? `${step.ms} ms` : `paste ${step.text}`
}
const planned = (action: InputAction, more: Partial<PlanOptions> = {}) =>
  stepsOf(plan([inputAction.parse(action)], { ...options, ...more })).map(shortly)

test.each<[InputAction, string[]]>([
  [{ type: 'move', x: 20, y: 10 }, ['20,10:0']],
  [{ type: 'move', x: 90, y: 10 }, ['50,10:0', '90,10:0']],
  [{ type: 'click' }, ['10,10:1', '10,10:0']],
  [{ type: 'click', x: 0, y: 0 }, ['0,0:0', '0,0:1', '0,0:0']],
  [{ type: 'click', button: 'right', hold: ['Shift'] }, ['+Shift', '10,10:4', '10,10:0', '-Shift']],
  [{ type: 'click', button: 'middle', count: 2 }, ['10,10:2', '10,10:0', '10,10:2', '10,10:0']],
  [{ type: 'click', button: 'back' }, ['+BrowserBack', '-BrowserBack']],
  [{ type: 'down' }, ['10,10:1']],
  [{ type: 'up', x: 12, y: 10 }, ['12,10:0', '12,10:0']],
  [
    {
      type: 'drag',
      path: [
        { x: 10, y: 10 },
        { x: 30, y: 10 },
      ],
    },
    ['10,10:0', '10,10:1', '12,10:1', '18,10:1', '30,10:1', '30,10:1', '30,10:0'],
  ],
  [{ type: 'scroll', dy: 2 }, ['10,10:16', '10,10:0', '10,10:16', '10,10:0']],
  [{ type: 'scroll', dy: -1 }, ['10,10:8', '10,10:0']],
  [{ type: 'scroll', dx: 1 }, ['+Shift', '10,10:16', '10,10:0', '-Shift']],
  [{ type: 'key', keys: ['ctrl', 's'] }, ['+Control', '+1f', '-1f', '-Control']],
  [{ type: 'key', keys: ['Control', 'S'] }, ['+Control', '+Shift', '+1f', '-1f', '-Shift', '-Control']],
  [{ type: 'key', keys: ['Return'], count: 2 }, ['+Enter', '-Enter', '+Enter', '-Enter']],
  [{ type: 'hold', keys: ['Space'], ms: 500 }, ['+Space', '500 ms', '-Space']],
  [{ type: 'wait', ms: 7 }, ['7 ms']],
  [{ type: 'type', text: 'a_\n' }, ['+1e', '-1e', '+Shift', '+c', '-c', '-Shift', '+Enter', '-Enter']],
  [{ type: 'screenshot' }, []],
])('%j is %j', (action, steps) => {
  expect(planned(action)).toEqual(steps)
})

test('an unknown place of the pointer is no place to begin a path from', () => {
  expect(planned({ type: 'click', x: 0, y: 700 }, { pointer: undefined })).toEqual(['0,700:0', '0,700:1', '0,700:0'])
})

test('AltGr types what the German layout has there', () => {
  expect(planned({ type: 'type', text: '{' }, { layout: layoutNamed('de') })).toEqual([
    '+AltGraph',
    '+8',
    '-8',
    '-AltGraph',
  ])
})

test('what is typed with a pressed button keeps it pressed', () => {
  const made = plan([{ type: 'down' }, { type: 'move', x: 20, y: 10 }, { type: 'up' }], options)
  expect(stepsOf(made).map(shortly)).toEqual(['10,10:1', '20,10:1', '20,10:0'])
})

test('characters that the layout lacks are pasted where the guest shares its clipboard', () => {
  const steps = planned({ type: 'type', text: 'a\naŘ€b\t\tŘ b' }, { clipboard: true })
  expect(steps).toEqual(['+1e', '-1e', '+Enter', '-Enter', 'paste aŘ€b', ...twice(['+Tab', '-Tab']), 'paste Ř b'])
  expect(planned({ type: 'type', text: 'a\nb', via: 'clipboard' }, { clipboard: true })).toEqual(['paste a\nb'])
})

const twice = <T>(steps: T[]): T[] => [...steps, ...steps]

test.each<[InputAction[], Partial<PlanOptions>, object]>([
  [
    [
      { type: 'wait', ms: 1 },
      { type: 'type', text: 'aŘ' },
    ],
    {},
    { why: 'character', index: 1, character: 'Ř' },
  ],
  [[{ type: 'type', text: 'Ř', via: 'keys' }], { clipboard: true }, { why: 'character', index: 0, character: 'Ř' }],
  [[{ type: 'type', text: 'a\u0007' }], {}, { why: 'character', character: '\u0007' }],
  [[{ type: 'type', text: 'a', via: 'clipboard' }], {}, { why: 'no_clipboard', index: 0 }],
  [[{ type: 'key', keys: ['ü'] }], {}, { why: 'character', index: 0, character: 'ü' }],
  [[{ type: 'click', x: 1280, y: 0 }], {}, { why: 'outside', index: 0, screen: options.screen }],
  [
    [
      { type: 'wait', ms: 50_000 },
      { type: 'wait', ms: 10_001 },
    ],
    {},
    { why: 'too_long', takesMs: 60_001 },
  ],
  [[{ type: 'type', text: 'x'.repeat(2_000) }], {}, { why: 'too_long', takesMs: 80_000 }],
])('%j is refused', (actions, more, refused) => {
  expect(plan(actions, { ...options, ...more })).toEqual({ refused: expect.objectContaining(refused) })
})
