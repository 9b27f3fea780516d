// Guarantee: `dormouse input` sends what its arguments say, and fails if any of it was not done.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { folder, start } from '../testing/process.ts'
import { type ActionOptions, actionsOf } from './input-actions.ts'

const done = {
  ...{ performed: 1, outcome: 'done', reason: null, screen: null, pointer: null },
  ...{ settled: null, changed: null, settle_ms: null, screenshot: null },
}

test.each<[string, string[], ActionOptions, object[]]>([
  ['click', ['100,200'], {}, [{ type: 'click', x: 100, y: 200 }]],
  [
    'click',
    ['0,0'],
    { button: 'right', count: 2, hold: ['ctrl'] },
    [{ type: 'click', x: 0, y: 0, button: 'right', count: 2, hold: ['ctrl'] }],
  ],
  ['down', [], {}, [{ type: 'down' }]],
  ['up', ['1,2'], {}, [{ type: 'up', x: 1, y: 2 }]],
  ['move', ['1,2'], {}, [{ type: 'move', x: 1, y: 2 }]],
  [
    'drag',
    ['1,2', '3,4'],
    {},
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
  ['scroll', ['0,-3'], { at: { x: 5, y: 6 } }, [{ type: 'scroll', x: 5, y: 6, dx: 0, dy: -3 }]],
  ['type', ['Grüße', 'an', 'alle'], { paste: ['a'] }, [{ type: 'type', text: 'Grüße an alle', paste: ['a'] }]],
  [
    'key',
    ['ctrl+s', 'ctrl++'],
    {},
    [
      { type: 'key', keys: ['ctrl', 's'] },
      { type: 'key', keys: ['ctrl', '+'] },
    ],
  ],
  ['hold', ['Space', '500'], {}, [{ type: 'hold', keys: ['Space'], ms: 500 }]],
  ['wait', ['10'], {}, [{ type: 'wait', ms: 10 }]],
])('%s %j with %j is %j', (action, values, options, actions) => {
  expect(actionsOf(action, values, options)).toEqual(actions)
})

test.each([['fly'], ['move'], ['move', 'here'], ['wait'], ['wait', '-1'], ['hold', 'a'], ['type'], ['key']])(
  '%s %s is wrong usage',
  (action, ...values) => {
    expect(() => actionsOf(action, values.filter(Boolean), {})).toThrow(expect.objectContaining({ exitCode: 2 }))
  },
)

test('a batch is sent with a key; its picture is saved, and its result shown', async () => {
  const screenshot = { mime_type: 'image/png', data: Buffer.from('a picture').toString('base64') }
  const { dormouse, seen } = await start(() => ({ body: { ...done, screenshot } }))
  const file = join(folder(), 'after.png')
  const { stdout } = await dormouse([
    'input',
    desktopId,
    'click',
    '3,4',
    '--settle',
    '--screenshot',
    file,
    '--takeover',
    '--json',
  ])
  expect(JSON.parse(stdout)).toMatchObject({ performed: 1, outcome: 'done' })
  expect(readFileSync(file, 'utf8')).toBe('a picture')
  expect(JSON.parse(String(seen[0]?.body))).toEqual({
    ...{ actions: [{ type: 'click', x: 3, y: 4 }], settle: {}, screenshot: {}, takeover: true },
  })
  expect(seen[0]?.headers['idempotency-key']).toBeDefined()
})

test('what was not done whole fails and says so', async () => {
  const { dormouse } = await start(() => ({ body: { ...done, outcome: 'unknown', performed: null, reason: 'lost' } }))
  const { code, stderr } = await dormouse(['input', desktopId, 'click'])
  expect(code).toBe(1)
  expect(stderr).toContain('the input is unknown: lost')
})

test('a long text comes in batches that fit; what follows it follows the last one', async () => {
  const { dormouse, seen } = await start(() => ({ body: done }))
  const words = ['input', desktopId, 'type', 'x'.repeat(1_000), '--settle', '--idempotency-key', 'k']
  expect((await dormouse(words)).code).toBe(0)
  const bodies = seen.map(({ body }) => JSON.parse(String(body)))
  expect(bodies.map(({ actions }) => actions[0].text.length)).toEqual([416, 416, 168])
  expect(bodies.map(({ settle }) => settle)).toEqual([undefined, undefined, {}])
  expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(['k', 'k 416', 'k 832'])
})
