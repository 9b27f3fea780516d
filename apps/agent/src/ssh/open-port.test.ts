import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { openPort } from './open-port.ts'

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
  let silences = 0
  const onSilence = async () => void silences++
  const socket = await openPort(path, () => true, onSilence)
  expect([opened, silences]).toEqual([2, 1])
  socket.destroy()
  server.close()
  rmSync(dirname(path), { recursive: true })
})

test('if the guest can have no program for its port, that is refused at once', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'port-')), 'port')
  const server = createServer((socket) => void socket.on('error', () => undefined).resume())
  server.listen(path)
  await once(server, 'listening')
  const unsuited = openPort(
    path,
    () => true,
    () => Promise.reject(new Refusal('image_unsuited')),
  )
  await expect(unsuited).rejects.toMatchObject({ code: 'image_unsuited' })
  server.close()
  rmSync(dirname(path), { recursive: true })
})
