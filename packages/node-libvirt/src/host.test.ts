/** Guarantee: events are decoded, and a host survives the end and the return of its daemon. */
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LibvirtHost } from './host.ts'
import type { HostEvent } from './host-event.ts'
import { events } from './protocol.ts'
import { FakeDaemon, Refusal, until } from './testing/fake-daemon.ts'

const domain = { name: 'd', uuid: '00000000-0000-4000-8000-000000000001', id: 3 }
const named = { name: domain.name, uuid: domain.uuid }

let daemon: FakeDaemon
let host: LibvirtHost
let heard: HostEvent[]

beforeEach(async () => {
  daemon = await FakeDaemon.start()
  host = await LibvirtHost.open({ socketPath: daemon.socketPath, uri: 'test:///default' })
  heard = []
  host.on('event', (event) => heard.push(event))
})

afterEach(async () => {
  host.close()
  await daemon[Symbol.asyncDispose]()
})

describe('events', () => {
  test('arrive decoded and in their order', async () => {
    const [client] = daemon.clients
    const { domainEventCallbackLifecycle: lifecycle, domainEventCallbackReboot: reboot } = events
    const { domainEventCallbackAgentLifecycle: agent, domainEventCallbackJobCompleted: job } = events
    const params = [
      { name: 'operation', value: { type: 'i32' as const, value: 2 } },
      { name: 'time_elapsed', value: { type: 'u64' as const, value: 7n } },
    ]
    client?.say(lifecycle.number, lifecycle.body, { callback: 1, domain, event: 2, detail: 2 })
    client?.say(agent.number, agent.body, { callback: 1, domain, state: 1, reason: 2 })
    client?.say(reboot.number, reboot.body, { callback: 1, domain })
    client?.say(job.number, job.body, { callback: 1, domain, params })
    client?.say(lifecycle.number, lifecycle.body, { callback: 1, domain, event: 77, detail: 1 })
    await until(() => heard.length === 5)
    expect(heard).toEqual([
      { type: 'lifecycle', domain: named, event: 'started', detail: 'restored' },
      { type: 'agent', domain: named, state: 'connected', reason: 'channel' },
      { type: 'reboot', domain: named },
      { type: 'job-completed', domain: named, operation: 'save', success: undefined, stats: { time_elapsed: 7n } },
      { type: 'lifecycle', domain: named, event: 'unknown', detail: 'unknown' },
    ])
  })

  test('without a subscription are ignored', async () => {
    const { body, number } = events.domainEventCallbackReboot
    daemon.clients[0]?.say(9_999, body, { callback: 1, domain })
    daemon.clients[0]?.say(number, body, { callback: 1, domain })
    await until(() => heard.length === 1)
    expect(host.isUp).toBe(true)
  })
})

describe('a daemon that disconnects', () => {
  test('and comes back is subscribed to again, and listeners get a gap', async () => {
    const order: string[] = []
    host.on('down', () => order.push('down')).on('up', () => order.push('up'))
    host.on('event', ({ type }) => order.push(type))
    const down = once(host, 'down')
    await daemon.die()
    await down
    expect(host.isUp).toBe(false)
    await expect(host.libraryVersion()).rejects.toMatchObject({ name: 'ConnectionLost', sent: false })
    const up = once(host, 'up')
    await daemon.listen()
    await up
    await until(() => order.length === 3)
    expect(order).toEqual(['down', 'up', 'gap'])
    expect(daemon.open[0]?.received.filter((it) => it === 'connectDomainEventCallbackRegisterAny')).toHaveLength(4)
  })

  test('is not reconnected after close', async () => {
    await daemon.die()
    host.close()
    await daemon.listen()
    const other = await LibvirtHost.open({ socketPath: daemon.socketPath })
    expect(daemon.open).toHaveLength(1)
    other.close()
  })

  test('or does not run at first, or refuses, is an error of open', async () => {
    daemon.answer('connectDomainEventCallbackRegisterAny', () => {
      throw new Refusal(84, 'no events here')
    })
    await expect(LibvirtHost.open({ socketPath: daemon.socketPath })).rejects.toMatchObject({ code: 84 })
    await until(() => daemon.open.length === 1, 'the refused connection closed')
    await expect(LibvirtHost.open({ socketPath: '/nonexistent' })).rejects.toMatchObject({ sent: false })
  })
})
