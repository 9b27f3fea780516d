// Guarantee: a guest on the wake port can only say that it was told. Whatever else it does costs a wake a bounded time and no memory.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tellGuest } from './wake-port.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-tell-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** A guest that does what it likes on the port. */
async function guest(act: (port: Socket) => void) {
  const path = join(folder, `port-${Math.random()}`)
  const server = createServer((port) => act(port.on('error', () => undefined)))
  await once(server.listen(path), 'listening')
  return { path, [Symbol.dispose]: () => void server.close() }
}

/** Hands each whole message to `answer`. */
function reading(port: Socket, answer: (message: string) => string) {
  let text = ''
  port.on('data', (bytes: Buffer) => {
    text += bytes.toString()
    if (text === '\nHELLO\n') port.write('HELLO\n')
    const message = /BEGIN [\s\S]*\nEND\n/.exec(text)?.[0]
    if (!message) return
    text = ''
    port.write(answer(message))
  })
}
const nonceOf = (message: string) => /^BEGIN (\S+)/.exec(message)![1]
const times = { helloMs: 200, answerMs: 300 }

test('a message has randomness first and the time last, and what is between', async () => {
  let message = ''
  using port = await guest((socket) =>
    reading(socket, (whole) => {
      message = whole
      return `OK ${nonceOf(whole)}\n`
    }),
  )
  const files = [{ path: '/etc/key', mode: 0o600, bytes: Buffer.from('secret') }, { path: '/etc/old' }]
  await tellGuest(port.path, { files, hostName: 'one' })
  const lines = message.split('\n')
  expect(lines.map((line) => line.split(' ')[0])).toEqual(['BEGIN', 'SEED', 'FILE', 'GONE', 'NAME', 'CLOCK', 'END', ''])
  expect(lines[1]).toMatch(/^SEED [0-9a-f]{128}$/)
  expect(lines.slice(2, 5)).toEqual(['FILE 600 /etc/key c2VjcmV0', 'GONE /etc/old', 'NAME one'])
  expect(Math.abs(Number(lines[5]!.split(' ')[1]) / 1e6 - Date.now())).toBeLessThan(60_000)
})

test('it is told only once it greets, and an answer to another message is none', async () => {
  const told: string[] = []
  using port = await guest((socket) =>
    reading(socket, (message) => {
      told.push(message)
      return `HELLO\nOK 0000\nNO 0000 no\nOK ${nonceOf(message)}x\nOK ${nonceOf(message)}\n`
    }),
  )
  await tellGuest(port.path, {})
  expect(told).toHaveLength(1)
})

test.each<[string, (port: Socket) => void, string]>([
  ['says nothing', () => undefined, 'nothing in the guest answers on its wake port'],
  ['never answers', (port) => void port.write('HELLO\n'), 'did not answer on its wake port in time'],
  ['closes', (port) => void port.end(), 'the guest’s wake port was closed'],
  ['goes', (port) => void port.write('HELLO\n', () => port.destroy()), 'the guest’s wake port was closed'],
  ['refuses', (port) => reading(port, (m) => `NO ${nonceOf(m)} the seed is not valid\n`), 'the seed is not valid'],
  ['gives no reason', (port) => reading(port, (m) => `NO ${nonceOf(m)}\n`), 'it gave no reason'],
  ['hides', (port) => reading(port, (m) => `NO ${nonceOf(m)} \x1b[2J${'ü'.repeat(900)}\n`), `?[2J${'?'.repeat(96)}`],
])('a guest that %s is unavailable', async (_name, act, message) => {
  using port = await guest(act)
  await expect(tellGuest(port.path, {}, times)).rejects.toMatchObject({
    code: 'guest_unavailable',
    message: expect.stringContaining(message),
  })
})

test('a guest that floods is read without being kept, until it is given up', async () => {
  using port = await guest((socket) => {
    const flood = Buffer.alloc(64 * 1024, 'HELLO OK NO ')
    const more = () => {
      while (!socket.destroyed && socket.write(flood));
    }
    socket.on('drain', more)
    more()
  })
  await expect(tellGuest(port.path, {}, times)).rejects.toMatchObject({ code: 'guest_unavailable' })
})

test('what the program would refuse is never sent', async () => {
  const wrong = [
    { files: [{ path: 'relative' }] },
    { files: [{ path: '/with space' }] },
    { files: [{ path: '/line\nfeed' }] },
    { files: [{ path: '/folder/' }] },
    { files: [{ path: '/large', bytes: Buffer.alloc(64 * 1024 + 1) }] },
    { files: Array.from({ length: 17 }, () => ({ path: '/x' })) },
    { files: Array.from({ length: 4 }, () => ({ path: '/x', bytes: Buffer.alloc(64 * 1024) })) },
    { hostName: 'a b' },
    { hostName: '' },
  ]
  for (const news of wrong) await expect(tellGuest('/no/such/port', news)).rejects.toThrow(/guest can|bytes/)
  await expect(tellGuest('/no/such/port', {})).rejects.toMatchObject({ code: 'guest_unavailable' })
})
