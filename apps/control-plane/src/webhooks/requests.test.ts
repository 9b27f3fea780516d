// Guarantee: one request reaches only addresses that were checked, follows nothing, and costs a bounded time and size.
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { badAnswers, RawServer, silentAnswers } from '@dormouse/process/testing/raw-server'
import { afterEach, expect, test } from 'vitest'
import { type Outcome, Receiver, type RequestOptions } from './requests.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function listening(listener: RequestListener): Promise<number> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

async function post(url: string, options: Partial<RequestOptions> = {}): Promise<Outcome> {
  using receiver = new Receiver(url, 1, { allowPrivate: true, ...options })
  return await receiver.post({ 'webhook-id': 'x' }, '{}', new AbortController().signal)
}

test.each([
  [200, null],
  [204, null],
  [301, 'redirect'],
  [404, 'status'],
  [500, 'status'],
])('a status of %i is %s', async (status, error) => {
  let requests = 0
  const port = await listening((request, response) => {
    requests++
    request.resume()
    response.writeHead(status, { location: `http://127.0.0.1:${port}/elsewhere` }).end()
  })
  expect(await post(`http://127.0.0.1:${port}/`)).toMatchObject({ status, error })
  expect(requests).toBe(1)
})

test('a private address is refused without the setting: as an address, and as the answer of DNS', async () => {
  let requests = 0
  const port = await listening((_, response) => response.end(String(requests++)))
  const answers = (addresses: string[]) => ({ allowPrivate: false, resolve: async () => addresses })
  expect(await post(`http://127.0.0.1:${port}/`, { allowPrivate: false })).toMatchObject({ error: 'address_refused' })
  expect(await post(`http://[::ffff:127.0.0.1]:${port}/`, answers([]))).toMatchObject({ error: 'address_refused' })
  for (const addresses of [['127.0.0.1'], ['::1'], ['8.8.8.8', '127.0.0.1'], ['::ffff:7f00:1']])
    expect(await post(`http://rebinding.example:${port}/`, answers(addresses))).toMatchObject({
      status: null,
      error: 'address_refused',
    })
  expect(await post(`http://nowhere.example:${port}/`, answers([]))).toMatchObject({ error: 'name_not_resolved' })
  expect(requests).toBe(0)
})

test('the connection goes to the address that was checked, with the name in the request', async () => {
  const hosts: (string | undefined)[] = []
  const port = await listening((request, response) => {
    hosts.push(request.headers.host)
    response.end()
  })
  let lookUps = 0
  const resolve = async () => (lookUps++ === 0 ? ['127.0.0.1'] : ['203.0.113.1'])
  expect(await post(`http://receiver.example:${port}/`, { resolve })).toMatchObject({ status: 200 })
  expect([hosts, lookUps]).toEqual([[`receiver.example:${port}`], 1])
})

test('a receiver that does not answer is cut off; so is a DNS server', async () => {
  const port = await listening(() => undefined)
  expect(await post(`http://127.0.0.1:${port}/`, { timeoutMs: 50 })).toMatchObject({ status: null, error: 'timeout' })
  const resolve = () => new Promise<string[]>(() => undefined)
  expect(await post('http://silent.example/', { timeoutMs: 50, resolve })).toMatchObject({ error: 'timeout' })
})

test('of an endless body no more is read than its status, and the connection is closed', async () => {
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  const port = await listening((_, response) => {
    response.on('close', resolve)
    response.writeHead(200)
    const write = () => void (response.destroyed || response.write('x'.repeat(4_096), () => setImmediate(write)))
    write()
  })
  expect(await post(`http://127.0.0.1:${port}/`)).toMatchObject({ status: 200, error: null })
  await closed
})

test('a port that nothing listens on is a failed connection, and a plain server no TLS', async () => {
  expect(await post('http://127.0.0.1:1/')).toMatchObject({ status: null, error: 'connection' })
  const port = await listening((_, response) => response.end())
  expect(await post(`https://127.0.0.1:${port}/`)).toMatchObject({ status: null, error: 'tls' })
})

test.each(Object.entries(badAnswers))('a receiver that answers with %s is a failed connection', async (_, answer) => {
  await using server = await RawServer.start(answer)
  expect(await post(server.url)).toMatchObject({ status: null, error: 'connection' })
  await expect.poll(() => server.open).toBe(0)
})

test.each(Object.entries(silentAnswers))('a receiver that answers with %s costs its deadline', async (_, answer) => {
  await using server = await RawServer.start(answer)
  expect(await post(server.url, { timeoutMs: 50 })).toMatchObject({ status: null, error: 'timeout' })
})

test.each([...Object.entries(badAnswers).slice(0, 2), ...Object.entries(silentAnswers)])(
  'the end of a term ends a request that got %s',
  async (_, answer) => {
    const term = new AbortController()
    await using server = await RawServer.start((socket, head) => {
      answer(socket, head)
      term.abort(new Error('the term has ended'))
    })
    using receiver = new Receiver(server.url, 1, { allowPrivate: true })
    await expect(receiver.post({}, '{}', term.signal)).rejects.toThrow('the term has ended')
  },
)
