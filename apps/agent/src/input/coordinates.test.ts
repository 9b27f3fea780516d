// Guarantee: a place of the client's picture is the same place on the screen, and one outside of it is refused.
import { expect, test } from 'vitest'
import { throughTablet } from '../driver/simulated/screen.ts'
import { dragBetween, onScreen, pathBetween } from './coordinates.ts'
import { pointerEvent } from './rfb-messages.ts'

const screen = { width: 1280, height: 800 }

test.each([
  [{ x: 0, y: 0 }, screen, { x: 0, y: 0 }],
  [{ x: 1279, y: 799 }, screen, { x: 1279, y: 799 }],
  [
    { x: 0, y: 0 },
    { width: 640, height: 400 },
    { x: 1, y: 1 },
  ],
  [
    { x: 639, y: 399 },
    { width: 640, height: 400 },
    { x: 1279, y: 799 },
  ],
  [
    { x: 500, y: 500 },
    { width: 1000, height: 1000 },
    { x: 640, y: 400 },
  ],
  [
    { x: 2559, y: 1599 },
    { width: 2560, height: 1600 },
    { x: 1279, y: 799 },
  ],
])('%j of %j is %j', (at, space, expected) => {
  expect(onScreen(at, space, screen)).toEqual(expected)
})

test.each([
  [{ x: 1280, y: 0 }, screen],
  [{ x: 0, y: 800 }, screen],
  [
    { x: 640, y: 0 },
    { width: 640, height: 400 },
  ],
])('%j is outside of %j', (at, space) => {
  expect(onScreen(at, space, screen)).toBeUndefined()
})

test('each pixel of each screen arrives at the guest as itself', () => {
  const wrong: string[] = []
  for (let size = 1; size <= 8_192; size = size < 64 ? size + 1 : Math.ceil(size * 1.19)) {
    for (let at = 0; at < size; at++) {
      const sent = pointerEvent({ x: at, y: at }, 0)
      if (throughTablet(sent.readUInt16BE(2), size) !== at) wrong.push(`${at} of ${size}`)
    }
  }
  expect(wrong).toEqual([])
})

test('a drag begins with small steps and ends where it should', () => {
  const [from, to] = [
    { x: 10, y: 20 },
    { x: 110, y: 20 },
  ]
  const places = dragBetween(from, to)
  expect(places.slice(0, 2)).toEqual([
    { x: 12, y: 20 },
    { x: 18, y: 20 },
  ])
  expect(places.at(-1)).toEqual(to)
  expect(dragBetween(from, { x: 11, y: 20 })).toEqual([{ x: 11, y: 20 }])
  expect(dragBetween(from, from)).toEqual([from])
})

test('a path ends where it should, in few steps', () => {
  expect(pathBetween({ x: 5, y: 5 }, { x: 5, y: 5 })).toEqual([{ x: 5, y: 5 }])
  expect(pathBetween({ x: 0, y: 0 }, { x: 80, y: 0 })).toEqual([
    { x: 40, y: 0 },
    { x: 80, y: 0 },
  ])
  const long = pathBetween({ x: 0, y: 0 }, { x: 1279, y: 799 })
  expect(long).toHaveLength(12)
  expect(long.at(-1)).toEqual({ x: 1279, y: 799 })
})
