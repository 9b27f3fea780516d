import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { reach } from './open-connection.ts'

test('a guest that does not listen yet is dialled until it does', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  const reached = reach({ host: '127.0.0.1', port, localAddress: '127.0.0.1' })
  // The first attempt meets nobody.
  await new Promise((resolve) => setImmediate(resolve))
  server.listen(port, '127.0.0.1')
  const [[socket], mine] = await Promise.all([once(server, 'connection'), reached])
  expect(mine.remotePort).toBe(port)
  mine.destroy()
  socket.destroy()
  server.close()
})

test('where the network is not this host’s, nothing is sent, and that is said at once', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const heard: unknown[] = []
  server.on('connection', (socket) => heard.push(socket))
  const { port } = server.address() as AddressInfo
  // 192.0.2.0/24 is nobody's.
  const reached = reach({ host: '127.0.0.1', port, localAddress: '192.0.2.1' })
  await expect(reached).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(heard).toEqual([])
  server.close()
})

test('a port that says nothing is let go and taken anew', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'door-')), 'port')
  let taken = 0
  const server = createServer((socket) => {
    taken++
    socket.on('error', () => undefined)
    if (taken === 1) return void socket.resume()
    socket.on('data', (bytes) => {
      const nonce = /RST (\w+)\n/.exec(bytes.toString('latin1'))?.[1]
      if (nonce) socket.write(`RDY ${nonce}\n`)
    })
  })
  server.listen(path)
  await once(server, 'listening')
  const socket = await reach({ path })
  expect(taken).toBe(2)
  socket.destroy()
  server.close()
  rmSync(dirname(path), { recursive: true })
})

test('a guest that resets the connection later ends nothing but that', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const reached = reach({ host: '127.0.0.1', port, localAddress: '127.0.0.1' })
  const [[theirs], ours] = await Promise.all([once(server, 'connection'), reached])
  const over = new Promise((resolve) => ours.once('close', resolve))
  ours.resume()
  theirs.resetAndDestroy()
  expect(await over).toBe(true)
  server.close()
})
