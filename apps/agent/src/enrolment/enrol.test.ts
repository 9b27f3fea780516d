// Guarantee: a control plane whose answer never ends costs an enrolment one attempt, and no memory.
import { mkdtempDisposableSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { newId } from '@dormouse/contract'
import { listenOnLoopback } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { badAnswers, RawServer } from '@dormouse/process/testing/raw-server'
import { expect, test } from 'vitest'
import { enrolled } from './enrol.ts'

const piece = Buffer.alloc(1024 * 1024, 'x')

function enrolAt(stateDir: string, url: string): Promise<{ hostId: string }> {
  return enrolled({
    stateDir,
    controlPlanes: [url],
    token: 'good',
    name: 'host',
    allowHttp: false,
    log: createLog({ name: 'enrol', level: 'silent' }),
    signal: AbortSignal.timeout(60_000),
  })
}

test('an answer without end is given up, and the next attempt enrols', async () => {
  let asked = 0
  let sent = 0
  const hostId = newId()
  const server = createServer((request, response) => {
    request.resume()
    if (++asked > 1) return void response.end(JSON.stringify({ host_id: hostId, installation_id: newId() }))
    const more = () => {
      sent += piece.length
      response.write(piece)
    }
    response.on('drain', more)
    more()
  })
  const url = `http://127.0.0.1:${await listenOnLoopback(server)}`
  using folder = mkdtempDisposableSync(`${tmpdir()}/dormouse-enrol-`)
  const identity = await enrolAt(folder.path, url)
  expect([identity.hostId, asked]).toEqual([hostId, 2])
  expect(sent).toBeLessThan(64 * 1024 * 1024)
  server.closeAllConnections()
  server.close()
})

test.each(Object.entries(badAnswers))('after %s, the next attempt enrols', async (_, answer) => {
  const body = JSON.stringify({ host_id: newId(), installation_id: newId() })
  await using server = await RawServer.start((socket, head) => {
    if (server.requests.length === 1) answer(socket, head)
    else socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  })
  using folder = mkdtempDisposableSync(`${tmpdir()}/dormouse-enrol-`)
  expect(await enrolAt(folder.path, server.url)).toMatchObject({ hostId: JSON.parse(body).host_id })
})

test('a redirect is refused by its target, and gets no token', async () => {
  await using server = await RawServer.start((socket) =>
    socket.end('HTTP/1.1 308 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n'),
  )
  using folder = mkdtempDisposableSync(`${tmpdir()}/dormouse-enrol-`)
  await expect(enrolAt(folder.path, server.url)).rejects.toThrow('/elsewhere')
  expect(server.requests).toHaveLength(1)
})
