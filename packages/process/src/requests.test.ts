// Guarantee: a request settles whatever its server does, and leaves no connection behind.
import { expect, test } from 'vitest'
import { BadResponse, type Response, readBody, request } from './requests.ts'
import { badAnswers, badBodies, RawServer, silentAnswers } from './testing/raw-server.ts'

const never = () => new AbortController().signal
const get = (server: RawServer, signal = never()): Promise<Response> => request(new URL(server.url), { signal })
const isClosed = (server: RawServer) => expect.poll(() => server.open).toBe(0)

test.each(Object.entries(badAnswers))('%s is an error, without a deadline', async (_, answer) => {
  await using server = await RawServer.start(answer)
  await expect(get(server)).rejects.toThrow(Error)
  await isClosed(server)
})

test.each(Object.entries(silentAnswers))('after %s, the signal ends the request with its reason', async (_, answer) => {
  const ended = new AbortController()
  const reason = new Error('the deadline')
  await using server = await RawServer.start((socket, head) => {
    answer(socket, head)
    ended.abort(reason)
  })
  await expect(get(server, ended.signal)).rejects.toBe(reason)
  await isClosed(server)
})

test.each(Object.entries(badBodies))('%s is an error of the body', async (_, answer) => {
  await using server = await RawServer.start(answer)
  const response = await get(server)
  expect(response.status).toBe(200)
  await expect(readBody(response, 10_000)).rejects.toThrow(Error)
  await isClosed(server)
})

test('the signal ends a body that comes no further', async () => {
  await using server = await RawServer.start((socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab'),
  )
  const ended = new AbortController()
  const response = await get(server, ended.signal)
  const reason = new Error('the deadline')
  const read = readBody(response, 10)
  ended.abort(reason)
  await expect(read).rejects.toBe(reason)
  await isClosed(server)
})

test('a few interim responses come before a good one', async () => {
  const hint = 'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n'
  const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
  await using server = await RawServer.start((socket) => socket.end(`${hint}HTTP/1.1 100 Continue\r\n\r\n${hint}${ok}`))
  expect(await readBody(await get(server), 2)).toBe('ok')
  await isClosed(server)
})

test('a redirect is a response like any other; an offer of another protocol is not taken', async () => {
  await using server = await RawServer.start((socket) =>
    socket.end('HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n'),
  )
  expect(await get(server)).toMatchObject({ status: 307, headers: { location: 'http://127.0.0.1:1/' } })
  expect(server.requests).toHaveLength(1)
  server.answer = (socket) => socket.end('HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nplain')
  expect(await readBody(await get(server), 5)).toBe('plain')
  server.answer = (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
  await expect(get(server)).rejects.toBeInstanceOf(BadResponse)
})

test('a signal that is aborted already sends nothing', async () => {
  await using server = await RawServer.start((socket) => socket.end())
  await expect(get(server, AbortSignal.abort(new Error('too late')))).rejects.toThrow('too late')
  expect(server.requests).toEqual([])
})
