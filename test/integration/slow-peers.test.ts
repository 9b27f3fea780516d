// Guarantee: whoever is slow, silent or greedy holds no more of this process than his share, and keeps nobody else out.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { newId } from '@dormouse/contract'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { Replica } from './parts/replica.ts'
import { RfbClient } from './parts/rfb-client.ts'

const mib = 1024 * 1024
const stallMs = 1_000
const proxy = '127.0.0.9'
const limits = {
  maxConnectionsPerAddress: 20,
  maxConnectionsPerCredential: 10,
  maxConnections: 100,
  maxHeldMiBPerAddress: 4,
  maxHeldMiBPerCredential: 4,
  maxHeldMiB: 6,
}

let stack: Stack
let keys: string[]
/** Another replica, on which bytes may make no progress for a short time only, and more may be held. */
let impatient: Replica
let opened: Peer[] = []

beforeAll(async () => {
  stack = await Stack.start({ controlPlane: { trustedProxies: [proxy], ...limits } })
  impatient = await stack.addReplica(undefined, { bodyStallMs: stallMs, maxHeldMiBPerAddress: 64, maxHeldMiB: 64 })
  const made = ['a', 'b', 'c'].map((name) => stack.replica.parts.principals.createKey(stack.org.id, name))
  keys = (await Promise.all(made)).map(({ api_key }) => api_key)
})
afterAll(() => stack[Symbol.asyncDispose]())
afterEach(async () => {
  for (const { socket } of opened) socket.destroy()
  opened = []
  const idle = ({ parts }: Replica) => parts.heldBytes.count === 0 && parts.inFlight.count === 0
  await waitFor('nothing to be held', () => stack.replicas.every(idle))
})

class Peer {
  readonly socket: Socket
  said = ''

  constructor(from: string, at: Replica) {
    this.socket = connect({ host: '127.0.0.1', port: Number(new URL(at.url).port), localAddress: from })
    this.socket
      .on('error', () => undefined)
      .on('data', (chunk) => {
        this.said += chunk.toString('latin1')
      })
    opened.push(this)
  }

  get closed(): boolean {
    return this.socket.closed
  }

  /** Sends the head of a request, and what else there is of it. */
  ask(line: string, headers: Record<string, string | number> = {}, rest: string | Buffer = ''): this {
    const lines = Object.entries({ host: 'x', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`${line} HTTP/1.1\r\n${lines.join('')}\r\n`)
    this.socket.write(rest)
    return this
  }
}

/** A connection that is known to be open at the other end. */
async function peer(from = '127.0.0.1', at = stack.replica): Promise<Peer> {
  const made = new Peer(from, at)
  await once(made.socket, 'connect')
  return made
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const isTold = (status: number) => (one: Peer) => one.said.startsWith(`HTTP/1.1 ${status} `)
const count = () => stack.replica.parts.connections.count

/** A body of which all but the end comes; answers when the other end holds it, or has said no. */
async function halfSent(key: string, bytes: number, path = '/v1/desktops'): Promise<Peer> {
  const { heldBytes } = stack.replica.parts
  const one = await peer()
  const before = heldBytes.count
  one.ask(`POST ${path}`, { ...bearer(key), 'content-length': bytes + 1 }, Buffer.alloc(bytes, 0x20))
  await waitFor('the body to be held or refused', () => heldBytes.count >= before + bytes || one.said !== '')
  return one
}

/** A request under way until it is let go. */
async function waiting(key = stack.org.key, from?: string) {
  const { id } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('save')
  const before = stack.replica.parts.waiters.count
  const one = (await peer(from)).ask(`POST /v1/desktops/${id}/hibernate?wait=true`, {
    ...bearer(key),
    'content-length': 0,
  })
  await waitFor('the wait', () => stack.replica.parts.waiters.count > before)
  return { one, release, id }
}

test('a head that does not come, and a connection that says nothing, are given up', async () => {
  const [half, silent, kept] = [
    await peer('127.0.0.1', impatient),
    await peer('127.0.0.1', impatient),
    await peer('127.0.0.1', impatient),
  ]
  half.socket.write('GET /healthz HTTP/1.1\r\nho')
  kept.ask('GET /healthz')
  await waitFor('both to be closed', () => half.closed && silent.closed)
  expect(half.said).toMatch(/^HTTP\/1\.1 408 .*"code":"invalid_request"/s)
  // A connection between two requests is not waited for in this way.
  expect(kept.closed).toBe(false)
})

test('of one address the oldest strangers give way with 429, and who is let in does not', async () => {
  const from = '127.0.0.2'
  const { one: customer, release } = await waiting(keys[0], from)
  const strangers: Peer[] = []
  for (let i = 0; i < limits.maxConnectionsPerAddress + 5; i++) strangers.push((await peer(from)).ask('GET /healthz'))
  await waitFor('the oldest five to be closed', () => strangers.filter(({ closed }) => closed).length === 5)
  expect(strangers.slice(0, 5).every(({ closed }) => closed)).toBe(true)
  for (const { said } of strangers.slice(0, 5)) expect(said).toMatch(/HTTP\/1\.1 429 .*"code":"rate_limited"/s)
  // Whoever comes next is heard.
  const next = (await peer(from)).ask('GET /v1/desktops', bearer(keys[1]!))
  await waitFor('an answer', () => isTold(200)(next))
  expect(customer.closed).toBe(false)
  release()
  await waitFor('the answer of the one who waited', () => isTold(200)(customer))
})

test('behind a proxy each address has its own share, and the proxy’s connections are nobody’s', async () => {
  const enrol = async (address: string) =>
    (await peer(proxy)).ask('POST /agent/v1/enrol', { 'x-forwarded-for': address, 'content-length': 10 }, '{')
  const other = await enrol('203.0.113.1')
  await waitFor('it to be counted', () => stack.replica.parts.heldBytes.count === 1)
  const many: Peer[] = []
  for (let i = 0; i < limits.maxConnectionsPerAddress + 3; i++) {
    many.push(await enrol('203.0.113.2'))
    await waitFor(
      'it to be counted',
      () => stack.replica.parts.inFlight.count >= Math.min(i + 2, limits.maxConnectionsPerAddress + 1),
    )
  }
  await waitFor('three of them to be told', () => many.filter(isTold(429)).length === 3)
  expect(other.said).toBe('')
})

test('of one credential so many requests and screens are under way, and one more is 429 on a connection that closes', async () => {
  const key = keys[0]!
  const { one, release, id } = await waiting(key)
  const { websocket_url } = (
    await stack.api('POST', `/v1/desktops/${(await stack.desktop('awake')).id}/stream`, {
      key,
      body: { claim: 'view' },
    })
  ).json
  const viewer = await RfbClient.connect(websocket_url)
  const rest = []
  for (let i = 0; i < limits.maxConnectionsPerCredential - 2; i++)
    rest.push((await peer()).ask(`POST /v1/desktops/${id}/wake`, { ...bearer(key), 'content-length': 2 }, '{'))
  const { inFlight } = stack.replica.parts
  await waitFor('all of them to be under way', () => inFlight.count === limits.maxConnectionsPerCredential - 1)
  const beyond = (await peer()).ask('GET /v1/desktops', bearer(key))
  await waitFor('it to be refused and closed', () => isTold(429)(beyond) && beyond.closed)
  expect(beyond.said).toMatch(/\r\nretry-after: 1\r\n/i)
  expect((await stack.api('GET', '/v1/desktops', { key: keys[1]! })).status).toBe(200)
  viewer.close()
  await waitFor('room again', async () => (await stack.api('GET', '/v1/desktops', { key })).status === 200)
  release()
  await waitFor('the answer', () => isTold(200)(one))
})

test('a screen beyond its credential’s share is 429, and its token is not spent', async () => {
  const key = keys[0]!
  const { id } = await stack.desktop('awake')
  const { websocket_url } = (await stack.api('POST', `/v1/desktops/${id}/stream`, { key, body: { claim: 'view' } }))
    .json
  const many = []
  for (let i = 0; i < limits.maxConnectionsPerCredential; i++)
    many.push((await peer()).ask('POST /v1/desktops', { ...bearer(key), 'content-length': 2 }, '{'))
  await waitFor('all of them to be under way', () => stack.replica.parts.inFlight.count === many.length)
  expect((await RfbClient.dial(websocket_url).closed).reason).toContain('429')
  for (const { socket } of many) socket.destroy()
  await waitFor('them to be gone', () => stack.replica.parts.inFlight.count === 0)
  const viewer = await RfbClient.connect(websocket_url)
  await viewer.frame()
  viewer.close()
})

test('in all, the oldest stranger gives way, wherever he comes from, and whoever comes next is served', async () => {
  const { id } = await stack.desktop('awake')
  const { websocket_url } = (await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'view' } })).json
  const viewer = await RfbClient.connect(websocket_url)
  const lost = () => stack.chronicle.find(/^link lost$/).length
  const before = lost()
  const strangers: Peer[] = []
  for (let i = 0; i < limits.maxConnections + 20; i++) strangers.push(await peer(`127.0.1.${1 + (i % 10)}`))
  const oldest = strangers.slice(0, 20)
  await waitFor('the oldest to be told', () => oldest.every((one) => isTold(429)(one) && one.closed))
  expect(count()).toBeLessThanOrEqual(limits.maxConnections)
  expect((await stack.api('GET', '/v1/desktops')).status).toBe(200)
  // Neither the host's link nor the two sockets of a screen were among the oldest.
  expect(lost()).toBe(before)
  await viewer.frame()
  viewer.close()
})

test('bodies are counted before they are kept: beyond a credential’s share 429, and the connection closes', async () => {
  const { heldBytes } = stack.replica.parts
  const [one, two] = [await halfSent(keys[0]!, 2 * mib - 9), await halfSent(keys[0]!, 2 * mib - 9)]
  // The input of an exec is such a body.
  const three = await halfSent(keys[0]!, 256 * 1024 - 9, `/v1/desktops/${newId()}/execs/${newId()}/stdin?offset=0`)
  await waitFor('the third to be refused and closed', () => isTold(429)(three) && three.closed)
  expect(heldBytes.count).toBeLessThanOrEqual(limits.maxHeldMiBPerCredential * mib)
  expect([one.said, two.said]).toEqual(['', ''])
  expect((await stack.api('POST', '/v1/desktops', { key: keys[1]!, body: { tier: 'small' } })).status).toBe(201)
})

test('where all is used up, whoever holds most gives way, and not who holds little', async () => {
  const most = [await halfSent(keys[0]!, 2 * mib - 9), await halfSent(keys[0]!, 2 * mib - 9)]
  const less = await halfSent(keys[1]!, 1.5 * mib)
  const last = await peer()
  last.ask('POST /v1/desktops', { ...bearer(keys[2]!), 'content-length': mib + 1 }, Buffer.alloc(mib, 0x20))
  await waitFor('the oldest of whoever holds most to be told', () => isTold(429)(most[0]!) && most[0]!.closed)
  expect([most[1]!.said, less.said, last.said]).toEqual(['', '', ''])
})

/** Asks for more answers than the network keeps, and reads none. */
async function unread(at: Replica, requests = 200): Promise<Peer> {
  const one = await peer('127.0.0.1', at)
  one.socket.pause()
  // In one piece, so that all of them are heard before the first answer fills the way back.
  one.socket.write('GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(requests))
  return one
}

test('answers that nobody reads are held up to a share, and then 429', async () => {
  const { heldBytes } = stack.replica.parts
  const one = await unread(stack.replica)
  await waitFor('bytes to be held', () => heldBytes.count > 0)
  expect(heldBytes.count).toBeLessThanOrEqual(limits.maxHeldMiBPerAddress * mib)
  one.socket.resume()
  await waitFor('one of them to be 429, and the end', () => one.said.includes('HTTP/1.1 429 ') && one.closed)
  expect(one.said.length).toBeLessThan((limits.maxHeldMiBPerAddress + 1) * mib)
})

test('answers of tools that nobody reads are held up to a share; beyond it, each says so, and the next request is 429', async () => {
  const { id: desktop_id } = await stack.desktop('awake')
  const { heldBytes } = stack.replica.parts
  const path = `/v1/desktops/${desktop_id}/files/srv/big`
  expect((await stack.api('PUT', path, { body: 'x'.repeat(65_536) })).status).toBe(200)
  const params = { name: 'desktop_read_file', arguments: { desktop_id, path: '/srv/big' } }
  const batch = Array.from({ length: 40 }, (_, i) => ({ jsonrpc: '2.0', id: i, method: 'tools/call', params }))
  const body = Buffer.from(JSON.stringify(batch))
  const head = { ...bearer(stack.org.key), accept: 'text/event-stream', 'content-length': body.length }
  const greedy = await peer()
  greedy.socket.pause()
  greedy.ask('POST /mcp', head, body)
  await waitFor('its share to be used up', () => heldBytes.count > 3.7 * mib)
  expect(heldBytes.count).toBeLessThanOrEqual(4 * mib)
  const more = (await peer()).ask('POST /mcp', head, body)
  await waitFor('the refusal', () => isTold(429)(more))
  greedy.socket.resume()
  await waitFor('the end of the answers', () => greedy.said.endsWith('0\r\n\r\n'))
  const [answers, read, dropped] = [/"jsonrpc":/g, /"size":65536/g, /too many bytes in flight/g].map(
    (of) => greedy.said.match(of)?.length ?? 0,
  )
  expect([answers, read! > 5, dropped! > 2]).toEqual([40, true, true])
})

test('an answer of which no byte is read is given up with its connection', async () => {
  const { heldBytes, inFlight, connections } = impatient.parts
  const before = connections.count
  await unread(impatient)
  await waitFor('bytes to be held', () => heldBytes.count > 0)
  await waitFor('all to be given up', () => heldBytes.count + inFlight.count === 0 && connections.count <= before)
})

const head = 'HTTP/1.1 200'

test('an answer that is read slowly is read to its end', async () => {
  const requests = 60
  const one = await unread(impatient, requests)
  await waitFor('bytes to be held', () => impatient.parts.heldBytes.count > 0)
  const began = performance.now()
  let heads = 0
  let end = ''
  one.socket.on('data', (chunk: Buffer) => {
    const text = end + chunk.toString('latin1')
    heads += text.split(head).length - 1
    end = text.slice(1 - head.length)
    one.socket.pause()
    setTimeout(() => one.socket.resume(), stallMs / 50)
  })
  one.socket.resume()
  const isWhole = () => heads === requests && end.endsWith('}')
  await waitFor('every answer', () => isWhole() || one.closed)
  expect([one.closed, isWhole()]).toEqual([false, true])
  expect(performance.now() - began).toBeGreaterThan(2 * stallMs)
})

test('a request that takes its time behind an answer that was read is waited for', async () => {
  const { id } = await stack.desktop('awake')
  await waitFor('the link', () => impatient.parts.links.has(stack.host.id))
  const body = JSON.stringify({ command: `sleep ${(2 * stallMs) / 1_000}; echo done` })
  const exec = `POST /v1/desktops/${id}/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${keys[0]}\r\n`
  const one = await peer('127.0.0.1', impatient)
  one.ask('GET /v1/openapi.json', {}, `${exec}content-length: ${body.length}\r\n\r\n${body}`)
  await waitFor('its answer', () => one.said.includes('"stdout":"done\\n"'))
})
