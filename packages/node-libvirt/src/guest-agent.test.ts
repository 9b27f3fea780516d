/** The guest agent: one call at a time per domain, and errors with what to do next. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Domain } from './domain.ts'
import { LibvirtHost } from './host.ts'
import { FakeDaemon, Refusal } from './testing/fake-daemon.ts'

let daemon: FakeDaemon
let host: LibvirtHost
let desktop: Domain

beforeEach(async () => {
  daemon = await FakeDaemon.start()
  host = await LibvirtHost.open({ socketPath: daemon.socketPath })
  desktop = host.domains.of({ name: 'd', uuid: '00000000-0000-4000-8000-000000000001' })
})

afterEach(async () => {
  host.close()
  await daemon[Symbol.asyncDispose]()
})

describe('a command', () => {
  test('goes as JSON with its time, and its parsed return comes back', async () => {
    daemon.answer('domainAgentCommand', ({ command, timeoutSecs }) => ({
      answer: JSON.stringify({ return: { timeoutSecs, ...JSON.parse(command) } }),
    }))
    const command = { execute: 'guest-exec', arguments: { path: '/bin/true' } }
    const answer = await host.guestAgent(desktop).command(command, { timeoutSecs: 3 })
    expect(answer).toEqual({ timeoutSecs: 3, ...command })
  })

  test.each([
    ['null', 'null'],
    ['a list', '[]'],
    ['a number', '7'],
    ['nothing', ''],
    ['half an object', '{'],
    ['brackets without end', '['.repeat(100_000)],
  ])('that is answered with %s has no return', async (_what, answer) => {
    daemon.answer('domainAgentCommand', () => ({ answer }))
    expect(await host.guestAgent(desktop).command({ execute: 'guest-ping' })).toBeUndefined()
  })

  test('waits for the one before it, of the same domain alone', async () => {
    let running = 0
    let most = 0
    daemon.answer('domainAgentCommand', async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
      return { answer: '{"return":{}}' }
    })
    const ping = { execute: 'guest-ping' }
    await Promise.all(Array.from({ length: 5 }, () => host.guestAgent(desktop).command(ping)))
    expect(most).toBe(1)
    const other = host.domains.of({ name: 'e', uuid: '00000000-0000-4000-8000-000000000002' })
    await Promise.all([desktop, other].map((domain) => host.guestAgent(domain).command(ping)))
    expect(most).toBe(2)
  })

  test.each([
    [86, 'Guest agent is not responding: QEMU guest agent is not connected', 'unresponsive', /not connected/],
    [74, 'argument unsupported: QEMU guest agent is not configured', 'absent', /not configured/],
    [55, 'Requested operation is not valid: domain is not running', 'stopped', /not running/],
    [
      1,
      "internal error: unable to execute QEMU agent command 'x': The command x has not been found",
      'refused',
      /^The command x/,
    ],
  ])('that fails with %i says which kind of failure it is', async (code, message, reason, description) => {
    daemon.answer('domainAgentCommand', () => {
      throw new Refusal(code, message)
    })
    const failed = host.guestAgent(desktop).command({ execute: 'x' })
    await expect(failed).rejects.toMatchObject({
      name: 'GuestAgentError',
      reason,
      description: expect.stringMatching(description),
      cause: { code },
    })
  })

  test('that fails otherwise keeps libvirt’s own error', async () => {
    daemon.answer('domainAgentCommand', () => {
      throw new Refusal(68, 'cannot acquire state change lock')
    })
    await expect(host.guestAgent(desktop).command({ execute: 'x' })).rejects.toMatchObject({ code: 68 })
  })
})
