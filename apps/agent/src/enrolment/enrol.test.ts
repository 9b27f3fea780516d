// Guarantee: a control plane whose answer never ends costs an enrolment one attempt, and no memory.
import { mkdtempDisposableSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { newId } from '@dormouse/contract'
import { listenOnLoopback } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { enrolled } from './enrol.ts'

const piece = Buffer.alloc(1024 * 1024, 'x')

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
  const identity = await enrolled({
    stateDir: folder.path,
    controlPlanes: [url],
    token: 'good',
    name: 'host',
    allowHttp: false,
    log: createLog({ name: 'enrol', level: 'silent' }),
    signal: AbortSignal.timeout(60_000),
  })
  expect([identity.hostId, asked]).toEqual([hostId, 2])
  expect(sent).toBeLessThan(64 * 1024 * 1024)
  server.closeAllConnections()
  server.close()
})
