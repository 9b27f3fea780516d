// Guarantee: the HAProxy of `infra/haproxy` in front of two replicas carries requests, agents' links and screens over TLS, and
// a change of leader is no failure to a client that repeats what is answered with 503. No client can forge its address. Both
// replicas reach Postgres over TLS, and refuse a server that is not the one they were told.

import { once } from 'node:events'
import { createServer, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import tls from 'node:tls'
import { createClient, Desktop } from '@dormouse/client'
import { configSchema } from '@dormouse/control-plane/config.ts'
import { startControlPlane } from '@dormouse/control-plane/context.ts'
import { listenOnLoopback } from '@dormouse/link/testing'
import { ArmedFailpoints, createLog, readConfig } from '@dormouse/process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../free-port.ts'
import { type OwnPostgres, ownPostgres } from '../integration/parts/own-postgres.ts'
import { RfbClient } from '../integration/parts/rfb-client.ts'
import { plainFetch } from '../openapi.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { Authority, type Identity } from './parts/authority.ts'
import { startHaproxy } from './parts/haproxy.ts'

/** The proxy's address, and that of each replica behind it: names would need a resolver. */
const [proxy, ...replicaNames] = ['127.0.0.1', '127.0.0.2', '127.0.0.3'] as const

let authority: Authority
let own: OwnPostgres
let databaseServer: string
let stack: Stack
let haproxy: AsyncDisposable
let identity: Identity
let url: string
beforeAll(async () => {
  authority = await Authority.create()
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), authority.certificate])
  own = await ownPostgres()
  await own.offerTls(await authority.issue('DNS:localhost'))
  databaseServer = secured({})
  const port = await freePort()
  url = `https://${proxy}:${port}`
  stack = await Stack.start({ databaseServer, hosts: 0, controlPlane: { trustedProxies: [proxy] } })
  const publicUrls = replicaNames.map((name) => `https://${name}:${port}`)
  await stack.replica.stop()
  await stack.replica.start({ publicUrl: publicUrls[0] })
  await stack.addReplica(undefined, { publicUrl: publicUrls[1], port: await freePort() })
  const [first, second] = stack.replicas.map((replica, at) => ({
    address: new URL(replica.url).host,
    name: replicaNames[at]!,
  }))
  const names = [proxy, ...replicaNames].map((address) => `IP:${address}`)
  identity = await authority.issue(...names)
  haproxy = await startHaproxy({ port, plainPort: await freePort(), replicas: [first!, second!], identity })
  await stack.replica.leading()
  await stack.addHost({ controlPlanes: [url] })
})
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]()
  await haproxy?.[Symbol.asyncDispose]()
  await own?.[Symbol.asyncDispose]()
  authority?.[Symbol.dispose]()
})

/** The database's URL as operators write it. */
function secured({ host = 'localhost', ca = authority.file }): string {
  const secured = new URL(own.postgres.url)
  secured.hostname = host
  secured.search = `sslmode=verify-full&sslrootcert=${ca}`
  return secured.href
}

const client = () => createClient({ baseUrl: url, apiKey: stack.org.key })

test('every session of the replicas is encrypted', async () => {
  const sessions = await stack.database.rows<{ ssl: boolean }>(
    `select ssl from pg_stat_ssl join pg_stat_activity using (pid)
      where datname = current_database() and application_name like 'dormouse%'`,
  )
  expect(sessions.length).toBeGreaterThan(2)
  expect(sessions.filter(({ ssl }) => !ssl)).toEqual([])
})

test('an agent has a link to each replica through the proxy, and serves a desktop and its screen', async () => {
  await stack.linked(stack.host)
  const desktop = await Desktop.create({ client: client(), tier: 'small' })
  await desktop.wake()
  expect((await desktop.commands.run('echo through')).stdout).toBe('through\n')
  const { websocketUrl } = await desktop.stream.getUrl({ claim: 'view' })
  expect(new URL(websocketUrl).origin).toBe(url.replace('https', 'wss'))
  const screen = await RfbClient.connect(websocketUrl)
  expect(screen.width).toBeGreaterThan(0)
  screen.socket.terminate()
  await desktop.destroy()
})

test('mutations go to the leader; while it changes, clients are told to retry, and none fails', async () => {
  const create = () => Desktop.create({ client: client(), tier: 'small' })
  await Promise.all(Array.from({ length: 4 }, create))
  const [leader, other] = stack.replicas as [Stack['replica'], Stack['replica']]
  const during = Array.from({ length: 8 }, create)
  await leader.stop()
  expect((await Promise.all([...during, create()])).length).toBe(9)
  expect(other.leads).toBe(true)
  await leader.start({ publicUrl: `https://${replicaNames[0]}:${new URL(url).port}` })
  await create()
})

test('no client can forge its address, or another host or protocol', async () => {
  await using server = await startEcho()
  const address = { address: server.address, name: '127.0.0.9' }
  const port = await freePort()
  await using _ = await startHaproxy({ port, plainPort: await freePort(), replicas: [address, address], identity })
  const forged = {
    'x-forwarded-for': ['192.0.2.1, 192.0.2.2', '192.0.2.3'],
    'X-FORWARDED-FOR': '192.0.2.4',
    'x-forwarded-host': ['evil.example', 'evil.example:1'],
    'x-forwarded-proto': 'http',
  }
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' }
  for (const headers of [forged, { ...forged, ...upgrade }]) {
    const heard = await waitFor('the proxy to see the server', () => heardBehind(port, headers))
    expect(heard).toMatchObject({
      'x-forwarded-for': [proxy],
      'x-forwarded-host': [`${proxy}:${port}`],
      'x-forwarded-proto': ['https'],
    })
  }
  const desktop = await Desktop.create({ client: client(), tier: 'small' })
  await desktop.wake()
  const answer = await plainFetch(`${url}/v1/desktops/${desktop.id}/stream`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${stack.org.key}`,
      'content-type': 'application/json',
      'x-forwarded-host': 'evil.example',
    },
    body: '{"claim":"view"}',
  })
  const origin = url.replace('https', 'wss')
  expect(await answer.json()).toMatchObject({ websocket_url: expect.stringContaining(`${origin}/`) })
})

test('however the path of the metrics is written, the proxy does not pass it on; over IPv6 as well', async () => {
  await using server = await startEcho()
  const address = { address: server.address, name: '127.0.0.9' }
  const port = await freePort()
  await using _ = await startHaproxy({ port, plainPort: await freePort(), replicas: [address, address], identity })
  await waitFor('the proxy to see the server', () => heardBehind(port, {}))
  const statusOf = async (path: string, host: string = proxy) => {
    const sent = request({ host, port, path, rejectUnauthorized: host === proxy }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    answer.resume()
    return answer.statusCode
  }
  const closed = ['/metrics', '/%6detrics', '/%6D%65trics?x=1', '//metrics', '/./metrics', '/%2e/metrics', '/METRICS']
  const more = ['/metrics/', '/metrics;x=1', '/%2fmetrics', '/.//./metrics']
  for (const path of [...closed, ...more]) expect([path, await statusOf(path)]).toEqual([path, 404])
  for (const path of ['/', '/metricsx', '/v1/desktops/x/files/metrics', '/x?/metrics']) {
    expect([path, await statusOf(path)]).toEqual([path, 200])
  }
  expect(await statusOf('/%6detrics', '::1')).toBe(404)
  expect(await statusOf('/', '::1')).toBe(200)
})

test('without any replica, the proxy answers 503 with Retry-After, as a problem', async () => {
  for (const replica of stack.replicas) await replica.stop()
  const answer = await waitFor('an answer of the proxy itself', async () => {
    const got = await plainFetch(`${url}/v1/desktops`, { headers: { authorization: `Bearer ${stack.org.key}` } })
    return got.status === 503 && got.headers.has('retry-after') && got
  })
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  expect(await answer.json()).toMatchObject({ status: 503, code: 'not_leader' })
  await stack.replica.start()
  await stack.replica.leading()
})

describe('a control plane does not start, and says what to correct, on a database', () => {
  let another: Authority
  beforeAll(async () => {
    another = await Authority.create()
  })
  afterAll(() => another?.[Symbol.dispose]())

  test.each([
    ['signed by another authority', () => secured({ ca: another.file }), /not signed by the authority .*sslrootcert/],
    ['with another host name', () => secured({ host: '127.0.0.1' }), /does not name the host in DATABASE_URL/],
  ])('%s', async (_what, make, why) => {
    const config = readConfig(configSchema, { DATABASE_URL: make(), PORT: '0' })
    const log = createLog({ name: 'test', level: 'silent' })
    await expect(startControlPlane(config, log, new ArmedFailpoints())).rejects.toThrow(why)
  })
})

/** A replica that answers the headers which it was sent, also to an upgrade. */
async function startEcho(): Promise<AsyncDisposable & { address: string }> {
  const heard = ({ headersDistinct }: IncomingMessage) => JSON.stringify(headersDistinct)
  const server = createServer((request, response) =>
    response.end(request.url === '/readyz' ? '{"leads":true}' : heard(request)),
  )
  server.on('upgrade', (request, socket) => {
    socket.on('error', () => undefined)
    const body = heard(request)
    socket.end(
      `HTTP/1.1 400 Bad Request\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
    )
  })
  const port = await listenOnLoopback(server)
  const close = async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return { address: `127.0.0.1:${port}`, [Symbol.asyncDispose]: close }
}

/** The headers that arrive behind the proxy; undefined while it answers by itself. */
async function heardBehind(port: number, headers: OutgoingHttpHeaders): Promise<NodeJS.Dict<string[]> | undefined> {
  const sent = request({ host: proxy, port, headers: { host: `${proxy}:${port}`, ...headers } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const body = await text(answer)
  return answer.statusCode === 503 ? undefined : JSON.parse(body)
}
