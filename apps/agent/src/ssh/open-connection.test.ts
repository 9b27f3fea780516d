import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { openConnection } from './open-connection.ts'

test('connecting to a guest that does not listen yet is retried until it does', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  const opening = openConnection({ host: '127.0.0.1', port, localAddress: '127.0.0.1' })
  // The first attempt finds no listener.
  await new Promise((resolve) => setImmediate(resolve))
  server.listen(port, '127.0.0.1')
  const [[socket], mine] = await Promise.all([once(server, 'connection'), opening])
  expect(mine.remotePort).toBe(port)
  mine.destroy()
  socket.destroy()
  server.close()
})

test('where this host is not on the guest’s network, nothing is sent, and that is refused at once', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted: unknown[] = []
  server.on('connection', (socket) => accepted.push(socket))
  const { port } = server.address() as AddressInfo
  // 192.0.2.0/24 is reserved: no host has it.
  const opening = openConnection({ host: '127.0.0.1', port, localAddress: '192.0.2.1' })
  await expect(opening).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(accepted).toEqual([])
  server.close()
})

test('a port that sends nothing is closed and opened again', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'port-')), 'port')
  let opened = 0
  const server = createServer((socket) => {
    opened++
    socket.on('error', () => undefined)
    if (opened === 1) return void socket.resume()
    socket.on('data', (bytes) => {
      const nonce = /RST (\w+)\n/.exec(bytes.toString('latin1'))?.[1]
      if (nonce) socket.write(`RDY ${nonce}\n`)
    })
  })
  server.listen(path)
  await once(server, 'listening')
  const socket = await openConnection({ path })
  expect(opened).toBe(2)
  socket.destroy()
  server.close()
  rmSync(dirname(path), { recursive: true })
})

test('a guest that resets the connection later ends only that connection', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const opening = openConnection({ host: '127.0.0.1', port, localAddress: '127.0.0.1' })
  const [[theirs], ours] = await Promise.all([once(server, 'connection'), opening])
  const closed = new Promise((resolve) => ours.once('close', resolve))
  ours.resume()
  theirs.resetAndDestroy()
  expect(await closed).toBe(true)
  server.close()
})
