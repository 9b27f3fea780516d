// What a failing test tells. (The mend: test/setup/every-failure.ts.)
import { expect, onTestFinished, test } from 'vitest'

let told: (string | undefined)[] = []

const untidy = (name: string) => ({ [Symbol.asyncDispose]: () => Promise.reject(new Error(`${name} is untidy`)) })

test.fails('a test that fails in the midst of what cannot be closed', async () => {
  onTestFinished(({ task }) => {
    told = task.result?.errors?.map(({ message }) => message) ?? []
  })
  await using _outer = untidy('the outer')
  await using _inner = untidy('the inner')
  throw new Error('the cause')
})

test('tells its own failure first, and each of the others', () => {
  expect(told).toEqual(['the cause', 'the inner is untidy', 'the outer is untidy'])
})
