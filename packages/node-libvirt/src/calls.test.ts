/** Lanes, turns and deadlines: no kind of call delays another, and what was not sent is known not to have run. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Calls, type CallsOptions } from './calls.ts'
import { Domains } from './domains.ts'
import type { ProcedureName } from './protocol.ts'
import { FakeDaemon, forever, until } from './testing/fake-daemon.ts'

let daemon: FakeDaemon
let calls: Calls
const domain = { name: 'd', uuid: '00000000-0000-4000-8000-000000000001', id: -1 }

function make(lanes: CallsOptions['lanes'] = {}): Calls {
  const address = { socketPath: daemon.socketPath }
  return new Calls({ address, uri: 'test:///default', openTimeoutMs: 30_000, keepaliveMs: 1_000, lanes })
}

beforeEach(async () => {
  daemon = await FakeDaemon.start()
  daemon.answer('connectGetHostname', () => ({ hostname: 'here' }))
  daemon.answer('domainGetXMLDesc', () => ({ xml: '<domain/>' }))
  daemon.answer('domainDestroyFlags', () => ({}))
  daemon.answer('domainResume', () => ({}))
  calls = make()
})

afterEach(async () => {
  calls.close()
  await daemon[Symbol.asyncDispose]()
})

function received(name: ProcedureName): number {
  return daemon.clients.flatMap((client) => client.received).filter((it) => it === name).length
}

/** Starts a call that is not expected to end before the test does. */
function start(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error) => error)
}

describe('a lane', () => {
  test('never has more than four calls in flight on a connection, and loses none', async () => {
    const answers = Array.from({ length: 200 }, () => calls.call('operations', 'connectGetHostname', {}))
    expect(await Promise.all(answers)).toHaveLength(200)
    expect(daemon.mostInFlight).toBe(4)
    expect(daemon.clients).toHaveLength(2)
  })

  test('full of stuck calls does not hold up the others', async () => {
    daemon.answer('domainSuspend', forever)
    for (let count = 0; count < 12; count++) start(calls.call('operations', 'domainSuspend', { domain }))
    await until(() => received('domainSuspend') === 8)
    expect(await calls.call('control', 'connectGetHostname', {})).toEqual({ hostname: 'here' })
  })

  test('keeps a slot for calls of high priority, and lets them go first', async () => {
    daemon.answer('domainGetXMLDesc', forever)
    for (let count = 0; count < 6; count++) start(calls.call('control', 'domainGetXMLDesc', { domain, flags: 0 }))
    await until(() => received('domainGetXMLDesc') === 3)
    expect(await calls.call('control', 'connectGetHostname', {})).toEqual({ hostname: 'here' })
    expect(received('domainGetXMLDesc')).toBe(3)
  })

  test('opens a connection more for an urgent call, for nothing else', async () => {
    calls = make({ operations: { connections: 1, spare: 1 } })
    daemon.answer('domainSuspend', forever)
    for (let count = 0; count < 6; count++) start(calls.call('operations', 'domainSuspend', { domain }))
    await until(() => received('domainSuspend') === 4)
    await calls.call('operations', 'domainDestroyFlags', { domain, flags: 0 }, { urgent: true })
    expect(daemon.clients).toHaveLength(2)
    expect(received('domainSuspend')).toBe(4)
  })

  test('refuses as unsent while the daemon is away, and works again when it is back', async () => {
    await calls.call('control', 'connectGetHostname', {})
    await daemon.die()
    await start(calls.call('control', 'connectGetHostname', {}))
    const away = calls.call('control', 'connectGetHostname', {})
    await expect(away).rejects.toMatchObject({ name: 'ConnectionLost', sent: false, procedure: 'connectGetHostname' })
    await daemon.listen()
    expect(await calls.call('control', 'connectGetHostname', {})).toEqual({ hostname: 'here' })
  })

  test('closed by us settles what was sent as sent and the rest as unsent', async () => {
    daemon.answer('domainSuspend', forever)
    const all = Array.from({ length: 10 }, () => start(calls.call('operations', 'domainSuspend', { domain })))
    await until(() => received('domainSuspend') === 8)
    calls.close()
    const outcomes = (await Promise.all(all)) as { sent: boolean }[]
    expect(outcomes.filter(({ sent }) => sent)).toHaveLength(8)
    await expect(calls.call('operations', 'domainSuspend', { domain })).rejects.toMatchObject({ sent: false })
  })
})

describe('a deadline', () => {
  test('leaves a sent call its slot until the late reply, which is dropped', async () => {
    const late = Promise.withResolvers<{ hostname: string }>()
    await calls.call('stats', 'connectGetHostname', {})
    daemon.answer('connectGetHostname', () => late.promise)
    const four = Array.from({ length: 4 }, () =>
      start(calls.call('stats', 'connectGetHostname', {}, { timeoutMs: 20 })),
    )
    expect(await Promise.all(four)).toMatchObject(Array(4).fill({ name: 'CallTimeout', sent: true }))
    const waiting = start(calls.call('stats', 'connectGetLibVersion', {}, { timeoutMs: 20 }))
    expect(await waiting).toMatchObject({ name: 'CallTimeout', sent: false })
    late.resolve({ hostname: 'late' })
    daemon.answer('connectGetVersion', () => ({ version: 7n }))
    expect(await calls.call('stats', 'connectGetVersion', {})).toEqual({ version: 7n })
    expect(received('connectGetLibVersion')).toBe(0)
  })

  test('that passes while the call waits for its turn keeps it from being sent', async () => {
    const first = Promise.withResolvers<object>()
    daemon.answer('domainSuspend', () => first.promise)
    const turn = { turn: domain.uuid }
    const suspend = calls.call('operations', 'domainSuspend', { domain }, turn)
    const resume = start(calls.call('operations', 'domainResume', { domain }, { ...turn, timeoutMs: 20 }))
    expect(await resume).toMatchObject({ name: 'CallTimeout', sent: false })
    first.resolve({})
    await suspend
    await calls.call('operations', 'domainDestroyFlags', { domain, flags: 0 }, turn)
    expect(received('domainResume')).toBe(0)
  })
})

describe('a turn', () => {
  test('runs the calls of one domain in the order asked, however fast they are asked', async () => {
    const order: string[] = []
    const slowly = async (name: string) => {
      order.push(`${name} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      order.push(`${name} ends`)
      return {}
    }
    daemon.answer('domainSuspend', () => slowly('suspend'))
    daemon.answer('domainResume', () => slowly('resume'))
    const both = (['domainSuspend', 'domainResume'] as const).map((name) =>
      calls.call('operations', name, { domain }, { turn: domain.uuid }),
    )
    await Promise.all(both)
    expect(order).toEqual(['suspend begins', 'suspend ends', 'resume begins', 'resume ends'])
  })

  test('does not hold up other domains, nor an urgent call of the same', async () => {
    daemon.answer('domainSuspend', forever)
    start(calls.call('operations', 'domainSuspend', { domain }, { turn: domain.uuid }))
    await calls.call('operations', 'domainResume', { domain }, { turn: 'another' })
    const urgent = { turn: domain.uuid, urgent: true }
    await calls.call('operations', 'domainDestroyFlags', { domain, flags: 0 }, urgent)
    expect(received('domainDestroyFlags')).toBe(1)
  })

  test('is shared with the definition of the same domain', async () => {
    const first = Promise.withResolvers<object>()
    daemon.answer('domainSuspend', () => first.promise)
    daemon.answer('domainDefineXMLFlags', () => ({ domain }))
    const suspend = calls.call('operations', 'domainSuspend', { domain }, { turn: domain.uuid })
    const define = new Domains(calls).define(`<domain><uuid>${domain.uuid}</uuid></domain>`)
    await calls.call('control', 'connectGetHostname', {})
    expect(received('domainDefineXMLFlags')).toBe(0)
    first.resolve({})
    await Promise.all([suspend, define])
    expect(received('domainDefineXMLFlags')).toBe(1)
  })

  test('goes on after a call that failed', async () => {
    const turn = { turn: domain.uuid }
    const failing = start(calls.call('operations', 'domainSuspend', { domain }, turn))
    expect(await calls.call('operations', 'domainResume', { domain }, turn)).toEqual({})
    expect(await failing).toMatchObject({ name: 'LibvirtError', code: 39 })
  })
})
