// Guarantee: however many stay, each has its turn.
import { expect, test } from 'vitest'
import { Rotation } from './rotation.ts'

test('what stays comes after what was not taken yet, and what is new comes before what was', () => {
  const rotation = new Rotation()
  const take = (text: string) => rotation.take([...text], 2, (one) => one).join('')
  expect(['abcde', 'abcde', 'abcde', 'abcdef', 'abc', 'abc'].map(take)).toEqual(['ab', 'cd', 'ea', 'fb', 'ca', 'ba'])
})
