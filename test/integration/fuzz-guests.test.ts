// Guarantee: whatever a guest sends, by its SSH server, by its agent or on its screen, a real agent keeps running, its memory
// is bounded, and the desktop works as soon as its guest does. `npm run fuzz -- --mode ssh` goes on for as long as one likes.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Target } from '../fuzz/mode.ts'
import { guestAgent } from '../fuzz/modes/guest-agent.ts'
import { screen } from '../fuzz/modes/screen.ts'
import { ssh } from '../fuzz/modes/ssh.ts'
import { Fuzz } from '../fuzz/run.ts'
import { Stack } from '../stack.ts'

let stack: Stack
let target: Target
beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('fuzz')
  target = { url: stack.url, key: stack.org.key, operatorKey }
})
afterAll(() => stack[Symbol.asyncDispose]())

test.each([
  [ssh, 6],
  [guestAgent, 5],
  [screen, 8],
])('$name: so many inputs are survived', async (mode, inputs) => {
  await using subject = await mode.begin({ seed: 1, target, say: () => undefined })
  const fuzz = new Fuzz(subject, 1)
  await fuzz.run(inputs)
  expect(await subject.verdict()).toEqual([])
  expect(fuzz.tally.faults).toEqual([])
  expect(fuzz.tally.inputs).toBe(inputs)
})
