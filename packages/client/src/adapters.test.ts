// Guarantee: each action of Anthropic's and of OpenAI's computer tool does what it means, and the service takes it.
import { inputBody } from '@dormouse/contract'
import { describe, expect, test } from 'vitest'
import { type AnthropicAction, fromAnthropic, fromOpenAI, type InputBatch, type OpenAIAction } from './adapters.ts'

const taken = (batch: InputBatch): InputBatch => {
  expect(inputBody.safeParse(batch).error?.issues).toBeUndefined()
  return batch
}

describe('Anthropic', () => {
  test.each<[AnthropicAction, object]>([
    [
      { action: 'key', text: 'ctrl+s' },
      { type: 'key', keys: ['ctrl', 's'] },
    ],
    [
      { action: 'key', text: 'Page_Down' },
      { type: 'key', keys: ['Page_Down'] },
    ],
    [
      { action: 'key', text: 'ctrl++' },
      { type: 'key', keys: ['ctrl', 'plus'] },
    ],
    [
      { action: 'key', text: '+' },
      { type: 'key', keys: ['plus'] },
    ],
    [
      { action: 'hold_key', text: 'shift', duration: 1.5 },
      { type: 'hold', keys: ['shift'], ms: 1_500 },
    ],
    [
      { action: 'type', text: 'Grüße' },
      { type: 'type', text: 'Grüße' },
    ],
    [{ action: 'cursor_position' }, { type: 'wait', ms: 0 }],
    [
      { action: 'mouse_move', coordinate: [0, 9] },
      { type: 'move', x: 0, y: 9 },
    ],
    [{ action: 'left_mouse_down' }, { type: 'down', button: 'left' }],
    [
      { action: 'left_mouse_up', coordinate: [1, 2] },
      { type: 'up', button: 'left', x: 1, y: 2 },
    ],
    [
      { action: 'left_click', coordinate: [1, 2] },
      { type: 'click', button: 'left', count: 1, x: 1, y: 2 },
    ],
    [{ action: 'left_click' }, { type: 'click', button: 'left', count: 1 }],
    [
      { action: 'right_click', coordinate: [1, 2] },
      { type: 'click', button: 'right', count: 1, x: 1, y: 2 },
    ],
    [
      { action: 'middle_click', coordinate: [1, 2] },
      { type: 'click', button: 'middle', count: 1, x: 1, y: 2 },
    ],
    [
      { action: 'double_click', coordinate: [1, 2], text: 'ctrl+shift' },
      { type: 'click', button: 'left', count: 2, x: 1, y: 2, hold: ['ctrl', 'shift'] },
    ],
    [
      { action: 'triple_click', coordinate: [1, 2] },
      { type: 'click', button: 'left', count: 3, x: 1, y: 2 },
    ],
    [
      { action: 'left_click_drag', start_coordinate: [0, 0], coordinate: [5, 6] },
      {
        type: 'drag',
        path: [
          { x: 0, y: 0 },
          { x: 5, y: 6 },
        ],
        button: 'left',
      },
    ],
    [
      { action: 'scroll', coordinate: [1, 2], scroll_direction: 'up', scroll_amount: 3 },
      { type: 'scroll', x: 1, y: 2, dx: 0, dy: -3 },
    ],
    [
      { action: 'scroll', scroll_direction: 'down', scroll_amount: 500 },
      { type: 'scroll', dx: 0, dy: 100 },
    ],
    [
      { action: 'scroll', scroll_direction: 'left', scroll_amount: 1 },
      { type: 'scroll', dx: -1 },
    ],
    [
      { action: 'scroll', scroll_direction: 'right', scroll_amount: 1 },
      { type: 'scroll', dx: 1 },
    ],
    [
      { action: 'wait', duration: 2 },
      { type: 'wait', ms: 2_000 },
    ],
    [{ action: 'screenshot' }, { type: 'screenshot' }],
  ])('%j', (given, action) => {
    const { actions, screenshot } = taken(fromAnthropic(given))
    expect([actions.length, screenshot]).toEqual([1, undefined])
    expect(actions[0]).toMatchObject(action)
  })
  test('zoom is a picture of a region', () => {
    expect(taken(fromAnthropic({ action: 'zoom', region: [10, 20, 110, 220] }))).toEqual({
      actions: [{ type: 'screenshot' }],
      screenshot: { region: { x: 10, y: 20, width: 100, height: 200 } },
    })
  })
  test('several keys are pressed one after the other', () => {
    const keys = fromAnthropic({ action: 'key', text: 'Down Down Return' }).actions
    expect(keys).toEqual(['Down', 'Down', 'Return'].map((one) => ({ type: 'key', keys: [one] })))
  })
  test('a button that is held over several actions is held in one batch', () => {
    const names = ['left_mouse_down', 'screenshot', 'left_mouse_up']
    const batch = taken(fromAnthropic(names.map((action) => ({ action }))))
    expect(batch.actions.map(({ type }) => type)).toEqual(['down', 'up'])
    expect(batch.screenshot).toEqual({})
  })
})

describe('OpenAI', () => {
  test.each<[OpenAIAction, object]>([
    [
      { type: 'click', x: 0, y: 2, button: 'left' },
      { type: 'click', x: 0, y: 2, button: 'left', count: 1 },
    ],
    [
      { type: 'click', x: 1, y: 2, button: 'wheel' },
      { type: 'click', button: 'middle' },
    ],
    [
      { type: 'click', x: 1, y: 2, button: 'back' },
      { type: 'click', button: 'back' },
    ],
    [
      { type: 'click', x: 1, y: 2, button: 'forward' },
      { type: 'click', button: 'forward' },
    ],
    [
      { type: 'click', x: 1, y: 2, button: 'right', keys: ['SHIFT'] },
      { type: 'click', button: 'right', hold: ['SHIFT'] },
    ],
    [
      { type: 'double_click', x: 1, y: 2, keys: null },
      { type: 'click', x: 1, y: 2, count: 2 },
    ],
    [
      {
        type: 'drag',
        path: [
          { x: 0, y: 1 },
          { x: 2.4, y: 3 },
        ],
      },
      {
        type: 'drag',
        path: [
          { x: 0, y: 1 },
          { x: 2, y: 3 },
        ],
      },
    ],
    [
      { type: 'keypress', keys: ['CTRL', 'A'] },
      { type: 'key', keys: ['CTRL', 'a'] },
    ],
    [
      { type: 'keypress', keys: ['ARROWLEFT'] },
      { type: 'key', keys: ['ARROWLEFT'] },
    ],
    [
      { type: 'move', x: 1, y: 2 },
      { type: 'move', x: 1, y: 2 },
    ],
    [{ type: 'screenshot' }, { type: 'screenshot' }],
    [
      { type: 'scroll', x: 1, y: 2, scroll_x: 0, scroll_y: 300 },
      { type: 'scroll', x: 1, y: 2, dx: 0, dy: 3 },
    ],
    [
      { type: 'scroll', x: 1, y: 2, scroll_x: -20, scroll_y: 0 },
      { type: 'scroll', dx: -1, dy: 0 },
    ],
    [
      { type: 'scroll', x: 1, y: 2, scroll_x: 0, scroll_y: 1e6 },
      { type: 'scroll', dy: 100 },
    ],
    [
      { type: 'type', text: 'a' },
      { type: 'type', text: 'a' },
    ],
    [{ type: 'wait' }, { type: 'wait', ms: 2_000 }],
  ])('%j', (given, action) => {
    const { actions } = taken(fromOpenAI(given))
    expect(actions).toHaveLength(1)
    expect(actions[0]).toMatchObject(action)
  })
})

test.each([
  [() => fromAnthropic({ action: 'fly' }), /"fly" is unknown; known actions are key,/],
  [() => fromAnthropic({ action: 'mouse_move' }), /"mouse_move" needs a valid `coordinate`/],
  [() => fromAnthropic({ action: 'scroll', scroll_amount: 1 }), /`scroll_direction`/],
  [() => fromOpenAI({ type: 'fly' }), /"fly" is unknown; known actions are click,/],
  [() => fromOpenAI({ type: 'click', x: 1, y: 1, button: 'sixth' }), /`button`/],
  [() => fromOpenAI({ type: 'keypress', keys: [] }), /`keys`/],
])('what is not an action throws', (make, message) => {
  expect(make).toThrow(message)
})

test.each([
  [
    () => fromAnthropic({ action: 'left_click', cordinate: [1, 2] } as never),
    'unknown field "cordinate"; did you mean "coordinate"',
  ],
  [() => fromAnthropic({ action: 'left_click', coordinate: [1] }), 'needs a valid `coordinate`'],
  [() => fromAnthropic({ action: 'mouse_move', coordinate: ['1', '2'] } as never), 'needs a valid `coordinate`'],
  [() => fromAnthropic({ action: 'zoom', region: [1, 2, 3] }), 'needs a valid `region`'],
  [() => fromOpenAI({ type: 'click', x: 1 }), 'needs a valid `y`'],
  [() => fromOpenAI({ type: 'click', x: 1, y: 2, buton: 'right' } as never), 'did you mean "button"'],
  [() => fromOpenAI([null] as never), 'an action must be an object'],
])('a field that is wrong is named (%#)', (convert, message) => {
  expect(convert).toThrow(TypeError)
  expect(convert).toThrow(message)
})

test('keys may be one text, and a field of later models is ignored', () => {
  expect(fromOpenAI({ type: 'keypress', keys: 'ctrl+c', status: 'new' } as never).actions).toEqual([
    { type: 'key', keys: ['ctrl', 'c'] },
  ])
})
