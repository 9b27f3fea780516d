// Guarantee: a line comes back after every loss, at a random time.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { backoffCeilingMs, dial } from './dial.ts'
import { LinkLost } from './errors.ts'
import { Peer } from './peer.ts'
import { openDoors } from './testing/doors.ts'
import { FaultProxy } from './testing/fault-proxy.ts'
import { listenOnLoopback } from './testing/pair.ts'
import { UpgradeRefusal } from './upgrades.ts'

const backoff = { minMs: 1, maxMs: 20 }
const handlers = { echo: async (value: unknown) => value }

/** A server that accepts the links whose credential `admit` accepts, behind a fault proxy. */
async function answeringServer(
  admit: (credential: string | undefined) => undefined | UpgradeRefusal = () => undefined,
) {
  const server = createServer()
  const upgrades = openDoors(server)
  const peers: Peer[] = []
  upgrades.add({
    path: (pathname) => pathname === '/link',
    authenticate: ({ headers }) => admit(headers.authorization),
    onSocket: (socket) => void peers.push(new Peer(socket, { handlers })),
  })
  const proxy = await FaultProxy.start(await listenOnLoopback(server))
  const close = async () => {
    await proxy.close()
    await upgrades.close()
    server.close()
  }
  return { url: `ws://127.0.0.1:${proxy.port}/link`, proxy, peers, upgrades, [Symbol.asyncDispose]: close }
}

test('comes up, and comes back after every cut', async () => {
  await using server = await answeringServer()
  const line = dial({ url: server.url, backoff })
  for (let round = 0; round < 5; round++) {
    const peer = await line.connected()
    expect(await peer.call('echo', round)).toBe(round)
    const lost = once(line, 'lost')
    server.proxy.cut()
    await lost
    expect(line.peer).toBeUndefined()
  }
  await line.close()
})

test('comes back from a half-open link', async () => {
  await using server = await answeringServer()
  const line = dial({ url: server.url, backoff, pingIntervalMs: 10, pingTimeoutMs: 20, handshakeTimeoutMs: 50 })
  await line.connected()
  const lost = once(line, 'lost')
  server.proxy.halfOpen()
  await lost
  await once(line, 'refused')
  server.proxy.heal()
  expect(await (await line.connected()).call('echo', 1)).toBe(1)
  await line.close()
})

test('sends a fresh credential with each attempt, and reports why it was refused', async () => {
  const shown: (string | undefined)[] = []
  await using server = await answeringServer((credential) => {
    shown.push(credential)
    return credential === 'token 3' ? undefined : new UpgradeRefusal(401, 'the token is stale')
  })
  let signed = 0
  const line = dial({ url: server.url, backoff, headers: async () => ({ authorization: `token ${++signed}` }) })
  const refusals: object[] = []
  line.on('refused', ({ status, detail }) => refusals.push({ status, detail }))
  await line.connected()
  expect(shown).toEqual(['token 1', 'token 2', 'token 3'])
  expect(refusals).toEqual(Array(2).fill({ status: 401, detail: 'the token is stale' }))
  await line.close()
})

test('keeps trying if a credential cannot be made', async () => {
  await using server = await answeringServer()
  let tries = 0
  const headers = () => {
    if (++tries < 3) throw new Error('the key file is away')
    return {}
  }
  const line = dial({ url: server.url, backoff, headers })
  await line.connected()
  expect(tries).toBe(3)
  await line.close()
})

test('keeps trying if nothing listens', async () => {
  const line = dial({ url: 'ws://127.0.0.1:9/link', backoff })
  for (let attempt = 0; attempt < 3; attempt++) {
    expect(await once(line, 'refused')).toMatchObject([{ status: undefined, cause: { code: 'ECONNREFUSED' } }])
  }
  await line.close()
})

test('a closed line stops dialling, and rejects its waiters', async () => {
  const line = dial({ url: 'ws://127.0.0.1:9/link', backoff })
  const waiting = expect(line.connected()).rejects.toBeInstanceOf(LinkLost)
  await line.close()
  await waiting
  await expect(line.connected()).rejects.toBeInstanceOf(LinkLost)
})

test('closing does not wait for a handshake that never ends', async () => {
  await using server = await answeringServer()
  server.proxy.halfOpen()
  const line = dial({ url: server.url, backoff })
  await Promise.resolve()
  await line.close()
})

test('waiting for a link can be aborted', async () => {
  const line = dial({ url: 'ws://127.0.0.1:9/link', backoff })
  await expect(line.connected(AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough')
  await line.close()
})

test('an event sent right after the upgrade is not missed', async () => {
  const server = createServer()
  const upgrades = openDoors(server)
  upgrades.add({
    path: () => true,
    authenticate: () => undefined,
    onSocket: (socket) => new Peer(socket).emitEvent('welcome', 'hello'),
  })
  const port = await listenOnLoopback(server)
  const line = dial({ url: `ws://127.0.0.1:${port}/`, backoff })
  const heard = Promise.withResolvers<unknown>()
  line.on('peer', (peer) => peer.on('event', (_name, payload) => heard.resolve(payload)))
  expect(await heard.promise).toBe('hello')
  await line.close()
  await upgrades.close()
  server.close()
})

test('the wait doubles up to its limit', () => {
  const ceilings = [0, 1, 2, 5, 6, 7, 1_000].map((attempt) => backoffCeilingMs({ minMs: 100, maxMs: 5_000 }, attempt))
  expect(ceilings).toEqual([100, 200, 400, 3_200, 5_000, 5_000, 5_000])
})
