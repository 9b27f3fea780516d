// Guarantee: an agent that does not answer is asked again only while its guest is busy, and only for what cannot be done
// twice by that; each failure says what to do. (libvirt's words are those of 9.0; a real agent: test/real/guest-faults.test.ts.)
import { type GuestAgent, GuestAgentError, LibvirtError } from '@dormouse/node-libvirt'
import { expect, test } from 'vitest'
import { noPulse, type Pulse } from '../../guest/pulse.ts'
import { agentCall } from './agent-call.ts'

const facts = { code: 86, domain: 0, level: 2, procedure: 'domainAgentCommand' }
const unresponsive = (message: string) =>
  new GuestAgentError('unresponsive', 'x', new LibvirtError({ ...facts, message }))
const late = unresponsive('Guest agent is not responding: Guest agent not available for now')
const gone = unresponsive('Guest agent is not responding: QEMU guest agent is not connected')
const busy: Pulse = { frozen: () => false, busy: async () => true }

/** An agent that fails so often before it answers. */
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
    expect(await agentCall({ agent, pulse: busy })(execute)).toBe('answer')
    expect(asked()).toBe(3)
  },
)

test.each([
  ['an idle guest that does not answer', 'guest-exec', late, noPulse, /restart qemu-guest-agent/],
  ['one whose agent is gone, however busy', 'guest-exec', gone, busy, /start qemu-guest-agent/],
  ['one whose readiness is asked', 'guest-ping', late, busy, /restart qemu-guest-agent/],
])('%s is told at once', async (_who, execute, error, pulse, told) => {
  const { agent, asked } = failing(1, error)
  await expect(agentCall({ agent, pulse })(execute)).rejects.toMatchObject({
    code: 'guest_unavailable',
    detail: expect.stringMatching(told),
  })
  expect(asked()).toBe(1)
})
