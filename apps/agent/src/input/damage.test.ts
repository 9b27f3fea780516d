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
