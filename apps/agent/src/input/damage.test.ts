// Guarantee: what changes on a screen counts, a caret that blinks does not.
import { expect, test } from 'vitest'
import { Damage } from './damage.ts'

const window = { x: 0, y: 0, width: 400, height: 300 }
const caret = { x: 50, y: 60, width: 2, height: 16 }

function damageAt() {
  const clock = { ms: 0 }
  return { clock, damage: new Damage(() => clock.ms) }
}

test('it is quiet for as long as nothing has changed', () => {
  const { clock, damage } = damageAt()
  damage.start()
  clock.ms = 100
  expect([damage.hasChanged, damage.quietMs]).toEqual([false, 100])
  damage.changed(window)
  clock.ms = 130
  expect([damage.hasChanged, damage.quietMs]).toEqual([true, 30])
})

test('a caret counts once; a letter beside it counts, too', () => {
  const { clock, damage } = damageAt()
  damage.start()
  damage.changed(caret)
  clock.ms = 500
  damage.changed(caret)
  expect(damage.quietMs).toBe(500)
  damage.changed({ ...caret, x: 60 })
  expect(damage.quietMs).toBe(0)
  clock.ms = 600
  damage.changed(window)
  damage.changed(window)
  expect(damage.quietMs).toBe(0)
})

test('where only the pointer was drawn, the screen must be quiet for longer, in a slow guest more so', () => {
  const { clock, damage } = damageAt()
  const pointer = { x: 505, y: 300, width: 12, height: 20 }
  damage.start()
  damage.pointed({ x: 500, y: 300 })
  damage.mark()
  clock.ms = 50
  damage.changed({ ...pointer, x: 20 })
  damage.changed(pointer)
  expect([damage.hasAnswered, damage.quietFor(300)]).toEqual([true, 500])
  damage.changed(window)
  expect(damage.quietFor(300)).toBe(300)
  damage.start({ x: 500, y: 300 })
  damage.pointed({ x: 500, y: 301 })
  damage.mark()
  clock.ms += 400
  damage.changed({ ...pointer, y: 310 })
  expect(damage.quietFor(300)).toBe(3_000)
  expect(damage.quietFor(4_000)).toBe(4_000)
  damage.changed({ ...pointer, x: 20, y: 500 })
  expect(damage.quietFor(300)).toBe(300)
})

test('what came before the last event is no answer to it', () => {
  const { clock, damage } = damageAt()
  damage.start()
  clock.ms = 10
  damage.changed(window)
  clock.ms = 20
  damage.mark()
  expect([damage.hasChanged, damage.hasAnswered]).toEqual([true, false])
  clock.ms = 30
  damage.changed(window)
  expect(damage.hasAnswered).toBe(true)
})
