// Guarantee: whatever a server sends, a call ends with an error that names its request, and holds no more than a bounded response.
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { createClient } from './client.ts'
import { serveRaw } from './testing/raw-server.ts'

const json = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const whole = (body: string, head = json) => `${head}Content-Length: ${body.length}\r\n\r\n${body}`
const html = '<html>not the service</html>'

/** Sends the same forever, as fast as it is read. */
const endless = (head: string, piece: string) => (socket: Socket) => {
  const pieces = piece.repeat(1_000)
  const more = (): void => {
    if (socket.writable) socket.write(pieces, () => setImmediate(more))
  }
  socket.write(head, more)
}

const gzipped = gzipSync(Buffer.alloc(64 * 1024 * 1024))
const bomb = (status: string) => (socket: Socket) => {
  socket.write(`HTTP/1.1 ${status}\r\nContent-Encoding: gzip\r\nContent-Length: ${gzipped.length}\r\n\r\n`)
  socket.end(gzipped)
}
const ending = (text: string) => (socket: Socket) => void socket.end(text)

test.each<[string, (socket: Socket) => void, RegExp]>([
  ['101', (socket) => void socket.write('HTTP/1.1 101 x\r\n\r\n'), /not a response .* baseUrl/],
  ['101 and its end', ending('HTTP/1.1 101 x\r\n\r\n'), /not a response .* baseUrl/],
  [
    'another protocol',
    ending('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    /not a response .* baseUrl/,
  ],
  ['a status that is none', ending('HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n'), /not a response .* baseUrl/],
  ['another language', ending('SSH-2.0-x\r\n'), /does not speak plain HTTP/],
  ['endless headers', endless('HTTP/1.1 200 OK\r\n', 'A: b\r\n'), /not a response .* baseUrl/],
  ['a bomb', bomb('200 OK'), /is compressed \(gzip\)/],
  ['a bomb as an error', bomb('500 No'), /is compressed \(gzip\)/],
  ['an endless error', endless('HTTP/1.1 500 No\r\n\r\n', 'x'.repeat(100)), /longer than 1048576 bytes/],
  [
    'a redirect to itself',
    ending(whole('', 'HTTP/1.1 302 x\r\nLocation: /v1/desktops\r\n')),
    /302 x, to .*; set baseUrl/,
  ],
  ['a cut body', ending(`${json}Content-Length: 100\r\n\r\n{"a":`), /interrupted/],
  ['a cut chunk', ending(`${json}Transfer-Encoding: chunked\r\n\r\n5\r\n{"a"`), /interrupted/],
  ['a page', ending(whole(html)), /not JSON; check that baseUrl/],
  ['a page of a proxy', ending(whole(html, 'HTTP/1.1 502 Bad Gateway\r\n')), /responded with 502 Bad Gateway/],
  ['null', ending(whole('null')), /not a JSON object; check that baseUrl/],
  ['a text', ending(whole('"ok"')), /not a JSON object/],
  ['nothing', ending(whole('')), /not JSON/],
  ['204', ending('HTTP/1.1 204 x\r\n\r\n'), /not JSON/],
  ['no response', ending(''), /no response from/],
])('%s is an error that names the request', async (_what, respond, message) => {
  await using server = await serveRaw(respond)
  const client = createClient({ baseUrl: server.baseUrl, apiKey: 'key', retries: 1 })
  for (const call of [() => client.listDesktops(), () => client.getDesktop('d')]) {
    const error = await call().catch((failure: unknown) => failure)
    expect(error).toMatchObject({ message: expect.stringMatching(message), method: 'GET' })
    expect(error).toHaveProperty('path', expect.stringMatching(/^\/v1\/desktops/))
  }
})
