// Guarantee: a place of the client's picture is the same place on the screen, and one outside of it is none.
import { expect, test } from 'vitest'
import { onScreen, pathBetween } from './coordinates.ts'

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

test('a path ends where it should, in few steps, from a place that may not be known', () => {
  expect(pathBetween(undefined, { x: 0, y: 9 })).toEqual([{ x: 0, y: 9 }])
  expect(pathBetween({ x: 5, y: 5 }, { x: 5, y: 5 })).toEqual([{ x: 5, y: 5 }])
  expect(pathBetween({ x: 0, y: 0 }, { x: 80, y: 0 })).toEqual([
    { x: 40, y: 0 },
    { x: 80, y: 0 },
  ])
  const long = pathBetween({ x: 0, y: 0 }, { x: 1279, y: 799 })
  expect(long).toHaveLength(12)
  expect(long.at(-1)).toEqual({ x: 1279, y: 799 })
})
