// Guarantee: a call that gets no answer is repeated only while its guest is busy, and only for what cannot be done twice by
// that; each failure says what to do. (libvirt's words are those of 9.0; a real agent: test/real/guest-faults.test.ts.)
import { type GuestAgent, GuestAgentError, LibvirtError } from '@dormouse/node-libvirt'
import { expect, test } from 'vitest'
import { until } from '../../testing/bench.ts'
import { type GuestActivity, unknownActivity } from '../guest-access.ts'
import { agentCall } from './agent-call.ts'

const facts = { code: 86, domain: 0, level: 2, procedure: 'domainAgentCommand' }
const unresponsive = (message: string) =>
  new GuestAgentError('unresponsive', 'x', new LibvirtError({ ...facts, message }))
const late = unresponsive('Guest agent is not responding: Guest agent not available for now')
const gone = unresponsive('Guest agent is not responding: QEMU guest agent is not connected')
const busy: GuestActivity = { ...unknownActivity, busy: async () => true }
const idle: GuestActivity = { ...unknownActivity, idle: async () => true }

/** An agent that fails this often before it answers. */
function failing(times: number, error: Error) {
  let asked = 0
  const command = async () => {
    if (asked++ < times) throw error
    return 'answer'
  }
  return { agent: () => ({ command }) as unknown as GuestAgent, asked: () => asked }
}

test.each(['guest-exec', 'guest-exec-status', 'guest-file-write'])(
  'a busy guest is asked again for %s where nothing was begun',
  async (execute) => {
    const { agent, asked } = failing(2, late)
    expect(await agentCall({ agent, activity: busy })(execute)).toBe('answer')
    expect(asked()).toBe(3)
  },
)

test.each([
  ['an idle guest that does not answer', 'guest-exec', late, unknownActivity, /restart qemu-guest-agent/],
  ['one whose agent is gone, however busy', 'guest-exec', gone, busy, /start qemu-guest-agent/],
  ['one whose readiness is asked', 'guest-ping', late, busy, /restart qemu-guest-agent/],
])('%s is told at once', async (_who, execute, error, activity, told) => {
  const { agent, asked } = failing(1, error)
  await expect(agentCall({ agent, activity })(execute)).rejects.toMatchObject({
    code: 'guest_unavailable',
    detail: expect.stringMatching(told),
  })
  expect(asked()).toBe(1)
})

/** An agent that takes a call and answers when the test lets it. */
function silent() {
  const { promise, resolve } = Promise.withResolvers<string>()
  return { agent: () => ({ command: () => promise }) as unknown as GuestAgent, answer: () => resolve('answer') }
}

test('an agent that says nothing while its guest idles is mute, long before libvirt gives it up', async () => {
  const { agent } = silent()
  await expect(agentCall({ agent, activity: idle })('guest-exec')).rejects.toMatchObject({
    code: 'guest_unavailable',
    detail: expect.stringMatching(/restart qemu-guest-agent/),
  })
})

test.each([
  ['its guest is busy', busy, undefined],
  ['nobody can tell how its guest fares', unknownActivity, undefined],
  ['libvirt itself is slow', idle, () => new Promise(() => undefined)],
])('an agent that says nothing is waited for where %s', async (_why, activity, daemon) => {
  const { agent, answer } = silent()
  let looks = 0
  const look = (overMs: number) => {
    looks++
    return activity.idle(overMs)
  }
  const asked = agentCall({ agent, activity: { ...activity, idle: look }, ...(daemon && { daemon }) })('guest-exec')
  await until(() => looks > 2)
  answer()
  expect(await asked).toBe('answer')
})

test('an agent that was to set the clock is waited for, long after another would be mute', async () => {
  const { agent, answer } = silent()
  const asked = agentCall({ agent, activity: idle })('guest-set-time')
  await expect(agentCall({ agent: silent().agent, activity: idle })('guest-exec')).rejects.toThrow()
  answer()
  expect(await asked).toBe('answer')
})
