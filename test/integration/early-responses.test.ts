// Guarantee: a request that is refused before its body was read gets the whole response, however the client closes: one that
// reads only after it has sent everything loses a response whose connection was closed under it.
import { once } from 'node:events'
import { connect } from 'node:net'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'

let stack: Stack
let desktop: string

beforeAll(async () => {
  stack = await Stack.start({ replicas: 2 })
  desktop = (await stack.desktop()).id
})
afterAll(() => stack[Symbol.asyncDispose]())

/** More than the buffers of both ends hold. */
const size = 8_000_000

interface Sending {
  url?: string
  key?: string | null
  version?: '1.0' | '1.1'
  headers?: string[]
  bytes?: number
  /** By default the length. */
  framing?: string[]
}

/** Sends everything, and only then reads until the end: the status, or what cut the sending. */
async function sendAll(request: string, { url = stack.url, key = stack.org.key, ...more }: Sending = {}) {
  const { version = '1.1', headers = [], bytes = size, framing = [`content-length: ${bytes}`] } = more
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  const failed = once(socket, 'error').then(([error]: unknown[]) => (error as { code: string }).code)
  const sent = async () => {
    const credential = key ? [`authorization: Bearer ${key}`] : []
    const lines = [`${request} HTTP/${version}`, 'host: x', ...framing, ...credential, ...headers]
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    for (let left = bytes; left > 0; left -= 50_000) {
      const piece = Buffer.alloc(Math.min(left, 50_000), 'z')
      if (!socket.write(piece)) await once(socket, 'drain')
    }
    let received = ''
    socket.on('data', (data) => {
      received += data.toString('latin1')
      if (received.includes('"code"')) socket.destroy()
    })
    await once(socket, 'close')
    expect(received.match(/^HTTP\/1\.1 [2-5]/gm) ?? []).toHaveLength(1)
    return received.replace('HTTP/1.1 100 Continue\r\n\r\n', '').split(' ')[1] ?? 'no response'
  }
  try {
    return await Promise.race([sent(), failed])
  } finally {
    socket.destroy()
  }
}

const closings: [string, Sending][] = [
  ['kept open', {}],
  ['Connection: close', { headers: ['connection: close'] }],
  ['HTTP/1.0', { version: '1.0' }],
  ['Expect, without waiting', { headers: ['expect: 100-continue', 'connection: close'] }],
]

const refused = (): [string, string, Sending?][] => {
  const at = `/v1/desktops/${desktop}`
  return [
    ['400', `PUT ${at}/files/root/x?mode=999`],
    ['400', 'PUT /v1/desktops/no-id/files/root/x'],
    ['400', 'POST /v1/%zz'],
    ['401', `PUT ${at}/files/root/x`, { key: null }],
    ['401', 'POST /v1/desktops', { key: null }],
    ['401', 'POST /v1/nothing', { key: 'svc_sk_x' }],
    ['401', 'POST /mcp', { key: null }],
    ['403', 'POST /admin/v1/orgs'],
    ['404', `PUT /v1/desktops/${newId()}/files/root/x`],
    ['404', `POST ${at}/uploads?path=/root/x`.replace(desktop, newId()), { headers: ['upload-length: 8000000'] }],
    ['400', `PATCH ${at}/uploads/${newId()}`, { headers: ['upload-offset: 0'] }],
    ['404', 'PUT /files/nothing'],
    ['404', 'POST /v1/nothing'],
    ['404', 'POST /nothing'],
    ['405', 'POST /v1/usage'],
    ['409', `PUT ${at}/files/root/x`],
    ['413', `PUT ${at}/files/root/x`, { bytes: 12_000_000 }],
    ['413', 'POST /v1/desktops'],
    ['413', 'POST /agent/v1/enrol'],
    ['431', `PUT ${at}/files/root/x`, { headers: [`x-long: ${'x'.repeat(20_000)}`] }],
    ['400', 'PUT no-path'],
    ['501', `POST ${at}/fork`],
    ['503', `POST ${at}/uploads?path=/root/x`, { url: stack.replicas[1]!.url, headers: ['upload-length: 8000000'] }],
  ]
}

test.each(closings)('the client gets the reason: %s', async (_how, how) => {
  for (const [status, request, more = {}] of refused()) {
    const headers = [...(how.headers ?? []), ...(more.headers ?? [])]
    expect([request, await sendAll(request, { ...how, ...more, headers })]).toEqual([request, status])
  }
})

test.each([
  ['gzip', '415', ['transfer-encoding: gzip']],
  ['an unknown coding', '415', ['transfer-encoding: x']],
  ['identity', '415', ['transfer-encoding: identity']],
  ['chunked, then gzip', '400', ['transfer-encoding: chunked, gzip']],
  ['chunked and a length', '400', ['transfer-encoding: chunked', 'content-length: 5']],
  ['a length and chunked', '400', ['content-length: 5', 'transfer-encoding: chunked']],
  ['chunks that are none', '400', ['transfer-encoding: chunked']],
])('a body in a coding that is not known gets one response, with the reason: %s', async (_what, status, framing) => {
  for (const headers of [[], ['connection: close']]) {
    expect(await sendAll('POST /v1/desktops', { framing, headers })).toBe(status)
    const unknown = await sendAll('POST /v1/desktops', { framing, headers, key: null })
    expect(unknown).toMatch(status === '400' ? /^40[01]$/ : /^401$/)
  }
})
