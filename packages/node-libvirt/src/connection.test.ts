/** Guarantee: every call on a connection settles once and truthfully, whatever the daemon does. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Connection, type ConnectionOptions } from './connection.ts'
import { ConnectionLost, LibvirtError } from './errors.ts'
import { events, type Result } from './protocol.ts'
import { FakeDaemon, forever, Refusal, until } from './testing/fake-daemon.ts'
import type { XdrReader } from './xdr.ts'

let daemon: FakeDaemon
const opened: Connection[] = []

beforeEach(async () => {
  daemon = await FakeDaemon.start()
  daemon.answer('connectGetHostname', () => ({ hostname: 'here' }))
})

afterEach(async () => {
  for (const connection of opened.splice(0)) connection.close()
  await daemon[Symbol.asyncDispose]()
})

async function open(options: Partial<ConnectionOptions> = {}): Promise<Connection> {
  const address = { socketPath: daemon.socketPath }
  const connection = await Connection.open({ address, uri: 'test:///default', openTimeoutMs: 30_000, ...options })
  opened.push(connection)
  return connection
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => expect.fail(`should have failed, answered ${String(value)}`),
    (error) => error,
  )
}

describe('a call', () => {
  test('gets its own reply, even if replies arrive in another order', async () => {
    const late = Promise.withResolvers<Result<'connectGetHostname'>>()
    daemon.answer('connectGetHostname', () => late.promise)
    daemon.answer('connectGetLibVersion', () => {
      late.resolve({ hostname: 'late' })
      return { version: 9_000_000n }
    })
    const connection = await open()
    const answers = [connection.call('connectGetHostname', {}), connection.call('connectGetLibVersion', {})]
    expect(await Promise.all(answers)).toEqual([{ hostname: 'late' }, { version: 9_000_000n }])
  })

  test('carries the daemon’s refusal with its code and procedure', async () => {
    daemon.answer('domainLookupByName', () => {
      throw new Refusal(42, 'no such domain')
    })
    const error = await failure((await open()).call('domainLookupByName', { name: 'x' }))
    expect(error).toBeInstanceOf(LibvirtError)
    expect(error).toMatchObject({ code: 42, level: 2, procedure: 'domainLookupByName', message: 'no such domain' })
  })

  test('is lost as sent when the daemon drops it', async () => {
    daemon.answer('connectGetHostname', (_args, client) => {
      client.drop()
      return forever()
    })
    const connection = await open()
    const error = await failure(connection.call('connectGetHostname', {}))
    expect(error).toMatchObject({ name: 'ConnectionLost', sent: true, procedure: 'connectGetHostname' })
    expect(await failure(connection.call('connectGetHostname', {}))).toMatchObject({ sent: false })
  })

  test('is refused as the fifth in flight: it would make the daemon stop reading', async () => {
    daemon.answer('connectGetHostname', forever)
    const connection = await open()
    const four = Array.from({ length: 4 }, () => failure(connection.call('connectGetHostname', {})))
    expect(await failure(connection.call('connectGetHostname', {}))).toMatchObject({ message: /fifth/ })
    connection.close()
    expect(await Promise.all(four)).toMatchObject([{ sent: true }, { sent: true }, { sent: true }, { sent: true }])
  })

  test('with arguments that do not encode fails alone', async () => {
    const connection = await open()
    expect(await failure(connection.call('domainLookupByUUID', { uuid: 'nonsense' }))).toMatchObject({
      name: 'XdrError',
    })
    expect(await connection.call('connectGetHostname', {})).toEqual({ hostname: 'here' })
  })
})

describe('the connection', () => {
  test.each([
    ['a reply to no pending call', { serial: 99 }],
    ['a reply with a body that is too short', {}],
  ])('closes on %s', async (_what, change) => {
    const closed = Promise.withResolvers<Error>()
    daemon.answer('connectGetHostname', (_args, client, frame) => {
      client.send({ ...frame, type: 1, ...change }, { shape: '', write: () => {}, read: () => undefined }, undefined)
      return forever()
    })
    const connection = await open({ onClose: closed.resolve })
    expect(await failure(connection.call('connectGetHostname', {}))).toBeInstanceOf(ConnectionLost)
    expect(await closed.promise).toBeInstanceOf(Error)
  })

  test('closes on bytes that are no frame', async () => {
    const connection = await open()
    daemon.clients[0]?.socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')
    await until(() => connection.closed)
  })

  test('receives events that arrive before the reply to their registration', async () => {
    const heard: number[] = []
    const domain = { name: 'd', uuid: '00000000-0000-4000-8000-000000000001', id: 1 }
    daemon.answer('connectDomainEventCallbackRegisterAny', (_args, client) => {
      const { number, body } = events.domainEventCallbackReboot
      client.say(number, body, { callback: 1, domain })
      return { callback: 1 }
    })
    const onEvent = (procedure: number, body: XdrReader) => {
      heard.push(procedure)
      expect(events.domainEventCallbackReboot.body.read(body).domain).toEqual(domain)
    }
    await (await open({ onEvent })).call('connectDomainEventCallbackRegisterAny', { event: 1, domain: undefined })
    expect(heard).toEqual([319])
  })

  test('authenticates by polkit if the daemon requires it, and reports what is not supported', async () => {
    daemon.answer('authPolkit', () => ({ complete: 1 }))
    daemon.answer('authList', () => ({ types: [2] }))
    await open()
    expect(daemon.clients[0]?.received).toEqual(['authList', 'authPolkit', 'connectOpen'])
    daemon.answer('authList', () => ({ types: [1] }))
    expect(await failure(open())).toMatchObject({
      name: 'ConnectionLost',
      message: /not supported \(1\)/,
    })
  })

  test('does not open if the daemon does not run, refuses, or is silent', async () => {
    const nowhere = { socketPath: '/nonexistent/libvirt-sock' }
    expect(await failure(open({ address: nowhere }))).toMatchObject({ sent: false, message: /ENOENT/ })
    daemon.answer('connectOpen', () => {
      throw new Refusal(38, 'no such driver')
    })
    expect(await failure(open())).toMatchObject({ name: 'LibvirtError', code: 38 })
    daemon.answer('connectOpen', forever)
    expect(await failure(open({ openTimeoutMs: 50 }))).toMatchObject({
      sent: false,
      message: /did not respond in time/,
    })
    await until(() => daemon.open.length === 0, 'nothing left open')
  })
})

describe('keepalive', () => {
  test('responds to the daemon’s', async () => {
    await open()
    const [client] = daemon.clients
    client?.ping()
    await until(() => client?.pongs === 1)
  })

  test('keeps a connection whose daemon responds', async () => {
    const connection = await open({ keepaliveMs: 10 })
    await until(() => (daemon.clients[0]?.pings ?? 0) > 12)
    expect(connection.closed).toBe(false)
  })

  test.each(['is silent', 'stops reading'])('closes the connection if the daemon %s', async (how) => {
    daemon.answer('connectGetHostname', forever)
    daemon.pongs = false
    const connection = await open({ keepaliveMs: 10 })
    if (how === 'stops reading') daemon.clients[0]?.socket.pause()
    expect(await failure(connection.call('connectGetHostname', {}))).toMatchObject({ sent: true, message: /silent/ })
  })
})
