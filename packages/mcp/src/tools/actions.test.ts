// Guarantee: actions are taken as models write them, and one that cannot be read is refused with how to write it.
import { inputBody } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { readActions } from './actions.ts'

const click = { type: 'click', x: 10, y: 20 }
const copy = { type: 'key', keys: ['ctrl', 'c'] }

test.each<[unknown, object[]]>([
  // The API's own words.
  [click, [click]],
  [{ type: 'click' }, [{ type: 'click' }]],
  [
    { type: 'click', x: 1, y: 2, count: 2, button: 'right', hold: ['Shift'] },
    [{ count: 2, button: 'right', hold: ['Shift'] }],
  ],
  [{ type: 'key', keys: ['Control', 's'], count: 3 }, [{ type: 'key', keys: ['Control', 's'], count: 3 }]],
  [{ type: 'scroll', dy: -2 }, [{ type: 'scroll', dx: 0, dy: -2 }]],
  [
    { type: 'type', text: 'Grüße', via: 'clipboard', paste: ['ctrl', 'v'] },
    [{ via: 'clipboard', paste: ['ctrl', 'v'] }],
  ],
  [{ type: 'hold', keys: ['a'], ms: 5 }, [{ type: 'hold', keys: ['a'], ms: 5 }]],
  [{ type: 'wait', ms: 300 }, [{ type: 'wait', ms: 300 }]],
  [
    {
      type: 'drag',
      path: [
        { x: 1, y: 2 },
        { x: 3, y: 4 },
      ],
    },
    [
      {
        type: 'drag',
        path: [
          { x: 1, y: 2 },
          { x: 3, y: 4 },
        ],
      },
    ],
  ],
  [{ type: 'move', x: 0, y: 0 }, [{ type: 'move', x: 0, y: 0 }]],
  [{ type: 'down', button: 'left' }, [{ type: 'down', button: 'left' }]],
  // Keys in one text.
  [{ type: 'key', keys: 'ctrl+c' }, [copy]],
  [{ type: 'key', keys: ['ctrl+c'] }, [copy]],
  [{ type: 'key', text: 'ctrl+c' }, [copy]],
  [{ type: 'key', key: 'ctrl + c' }, [copy]],
  [{ type: 'hotkey', keys: 'Ctrl-c' }, [{ type: 'key', keys: ['Ctrl', 'c'] }]],
  [{ action: 'key', text: 'ctrl++' }, [{ type: 'key', keys: ['ctrl', '+'] }]],
  [{ action: 'key', text: '+' }, [{ type: 'key', keys: ['+'] }]],
  [{ action: 'key', text: '-' }, [{ type: 'key', keys: ['-'] }]],
  [{ action: 'key', text: 'Page_Down' }, [{ type: 'key', keys: ['Page_Down'] }]],
  [
    { action: 'key', text: 'Down Down Return' },
    ['Down', 'Down', 'Return'].map((key) => ({ type: 'key', keys: [key] })),
  ],
  [{ type: 'key', keys: ['ctrl+a', 'ctrl+c'] }, [{ keys: ['ctrl', 'a'] }, { keys: ['ctrl', 'c'] }]],
  [{ type: 'key', keys: ['super'] }, [{ type: 'key', keys: ['super'] }]],
  [{ type: 'press', key: ' ' }, [{ type: 'key', keys: ['Space'] }]],
  // Anthropic's tool.
  [{ type: 'left_click', coordinate: [10, 20] }, [{ ...click, button: 'left' }]],
  [{ action: 'left_click', coordinate: [10, 20], text: 'shift' }, [{ ...click, button: 'left', hold: ['shift'] }]],
  [{ action: 'right_click', coordinate: [10, 20] }, [{ ...click, button: 'right' }]],
  [{ action: 'middle_click', coordinate: [10, 20] }, [{ ...click, button: 'middle' }]],
  [{ action: 'double_click', coordinate: [10, 20] }, [{ ...click, count: 2 }]],
  [{ action: 'triple_click', coordinate: [10, 20] }, [{ ...click, count: 3 }]],
  [{ action: 'left_click' }, [{ type: 'click', button: 'left' }]],
  [{ action: 'mouse_move', coordinate: [1.4, 2.6] }, [{ type: 'move', x: 1, y: 3 }]],
  [
    { action: 'left_click_drag', start_coordinate: [1, 2], coordinate: [3, 4] },
    [
      {
        type: 'drag',
        path: [
          { x: 1, y: 2 },
          { x: 3, y: 4 },
        ],
      },
    ],
  ],
  [{ action: 'left_click_drag', coordinate: [3, 4] }, [{ type: 'down' }, { type: 'move', x: 3, y: 4 }, { type: 'up' }]],
  [{ action: 'left_mouse_down' }, [{ type: 'down' }]],
  [{ action: 'left_mouse_up', coordinate: [1, 2] }, [{ type: 'up', x: 1, y: 2 }]],
  [
    { action: 'scroll', coordinate: [1, 2], scroll_direction: 'up', scroll_amount: 5 },
    [{ type: 'scroll', x: 1, y: 2, dx: 0, dy: -5 }],
  ],
  [{ action: 'scroll', coordinate: [1, 2], scroll_direction: 'right', scroll_amount: 500 }, [{ dx: 100, dy: 0 }]],
  [{ action: 'scroll', coordinate: [1, 2], scroll_direction: 'down' }, [{ dx: 0, dy: 3 }]],
  [{ action: 'hold_key', text: 'shift', duration: 1.5 }, [{ type: 'hold', keys: ['shift'], ms: 1_500 }]],
  [{ action: 'type', text: 'a' }, [{ type: 'type', text: 'a' }]],
  [{ action: 'wait', duration: 2 }, [{ type: 'wait', ms: 2_000 }]],
  [{ action: 'cursor_position' }, [{ type: 'wait', ms: 0 }]],
  [{ action: 'screenshot' }, [{ type: 'screenshot' }]],
  // OpenAI's tool.
  [{ type: 'click', button: 'wheel', x: 10, y: 20 }, [{ ...click, button: 'middle' }]],
  [{ type: 'double_click', x: 10, y: 20, keys: null }, [{ ...click, count: 2 }]],
  [{ type: 'click', x: 10, y: 20, keys: ['SHIFT'] }, [{ ...click, hold: ['SHIFT'] }]],
  [{ type: 'keypress', keys: ['CTRL', 'A'] }, [{ type: 'key', keys: ['CTRL', 'a'] }]],
  [{ type: 'scroll', x: 1, y: 2, scroll_x: 0, scroll_y: 300 }, [{ dx: 0, dy: 3 }]],
  [{ type: 'scroll', x: 1, y: 2, scroll_x: -5, scroll_y: 0 }, [{ dx: -1, dy: 0 }]],
  [
    {
      type: 'drag',
      path: [
        [1, 2],
        [3, 4],
      ],
    },
    [
      {
        path: [
          { x: 1, y: 2 },
          { x: 3, y: 4 },
        ],
      },
    ],
  ],
  [{ type: 'wait' }, [{ type: 'wait', ms: 2_000 }]],
  // Between the two.
  [{ type: 'leftClick', x: '10', y: '20' }, [{ ...click, button: 'left' }]],
  [{ type: 'click', coordinate: { x: 10, y: 20 } }, [click]],
  [{ type: 'click', coordinate: '[10, 20]' }, [click]],
  [{ type: 'click', x: [10, 20] }, [click]],
  [{ type: 'scroll_down', amount: 2 }, [{ type: 'scroll', dx: 0, dy: 2 }]],
  [{ type: 'type_text', text: 'a' }, [{ type: 'type', text: 'a' }]],
  [JSON.stringify([click]), [click]],
  [JSON.stringify({ action: 'key', text: 'Return' }), [{ type: 'key', keys: ['Return'] }]],
  [[{ type: 'screenshot' }, click, { type: 'screenshot' }], [click]],
])('%j', (given, meant) => {
  const { actions } = readActions(given)
  expect(actions).toHaveLength(meant.length)
  expect(actions).toMatchObject(meant)
  expect(inputBody.safeParse({ actions }).error?.issues).toBeUndefined()
})

test('a zoom is a picture of a region', () => {
  expect(readActions({ action: 'zoom', region: [10, 20, 110, 220] })).toEqual({
    actions: [{ type: 'screenshot' }],
    region: { x: 10, y: 20, width: 100, height: 200 },
  })
})

test.each<[unknown, string]>([
  ['ctrl+c', 'actions must be a list of objects such as {"type": "click", "x": 512, "y": 300}, not text'],
  [['ctrl+c'], 'actions[0]: must be an object such as {"type": "click", "x": 512, "y": 300}'],
  [{ x: 1 }, 'actions[0]: needs a "type", as in {"type": "click", "x": 512, "y": 300}'],
  [{ type: 'clik' }, '"clik" is not an action; did you mean "click"'],
  [{ type: 'fly' }, '"fly" is not an action; the actions are move, click'],
  [[click, { type: 'click', x: 1 }], 'actions[1]: "click" needs both "x" and "y", or neither'],
  [{ type: 'move' }, '"move" needs "x" and "y", as in {"type": "move", "x": 512, "y": 300}'],
  [{ type: 'click', coordinate: [1] }, '"click" needs a place such as [512, 300], not [1]'],
  [{ type: 'click', coordinate: [1, null] }, 'not [1,null]'],
  [{ type: 'key' }, '"key" needs "keys", as in {"type": "key", "keys": ["ctrl", "c"]}'],
  [{ type: 'key', keys: [1] }, 'keys must be names such as ["ctrl", "c"] or "ctrl+c", not [1]'],
  [{ type: 'click', button: 'sixth' }, '"button" must be left, middle, right, back, forward or wheel, not "sixth"'],
  [{ type: 'click', buton: 'left' }, '"click" takes no "buton"; did you mean "button"?; leave it out'],
  [{ type: 'scroll' }, '"scroll" needs "dx" or "dy", as in {"type": "scroll", "dy": 3}'],
  [{ type: 'scroll', scroll_direction: 'in' }, '"scroll_direction" must be up, down, left or right, not "in"'],
  [{ type: 'drag', x: 1 }, '"drag" needs both "x" and "y", or neither'],
  [{ type: 'drag' }, '"drag" needs a "path"'],
  [{ type: 'drag', path: [[1, 2]] }, '"path" must be a list of at least two places'],
  [{ type: 'wait', ms: 'long' }, '"ms" must be a number, not "long"'],
  [{ type: 'type' }, '"type" needs a "text"'],
  [{ type: 'constructor' }, '"constructor" is not an action'],
  [{ action: 'zoom' }, '"zoom" needs a "region"'],
])('%j is refused in words', (given, message) => {
  expect(() => readActions(given)).toThrow(TypeError)
  expect(() => readActions(given)).toThrow(message)
})
