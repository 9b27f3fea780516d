// Guarantee: a socket becomes a link only after its handshake, and an unauthenticated client costs next to nothing.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { dial } from './dial.ts'
import { DialRefused } from './errors.ts'
import { type Handshake, type HandshakeLimits, shakeHands } from './handshake.ts'
import { Peer } from './peer.ts'
import { openDoors } from './testing/doors.ts'
import { listenOnLoopback } from './testing/pair.ts'
import { UpgradeRefusal } from './upgrades.ts'

type Outcome = 'taken' | DialRefused

/** A server whose handshake expects `please`; it records the outcome for each socket. */
async function greeter(limits: HandshakeLimits = {}) {
  const server = createServer()
  const upgrades = openDoors(server)
  const outcomes: Outcome[] = []
  upgrades.add({
    path: () => true,
    protocol: (offered) => offered.has('second') && 'second',
    authenticate: () => undefined,
    onSocket: (socket, _, { socket: raw }) => {
      shakeHands(socket, { ...limits, raw }, async (hands) => {
        hands.say('the word?')
        const word = await hands.hear()
        if (word !== 'please') return new UpgradeRefusal(403, `not “${word.slice(0, 10)}”`)
        hands.say('come in')
        return new Peer(socket, { handlers: { greet: async () => 'hello' } })
      }).then(
        () => outcomes.push('taken'),
        (error: DialRefused) => outcomes.push(error),
      )
    },
  })
  const url = `ws://127.0.0.1:${await listenOnLoopback(server)}`
  const close = async () => {
    await upgrades.close()
    server.close()
  }
  return { url, outcomes, [Symbol.asyncDispose]: close }
}

const rawOf = (socket: WebSocket) => (socket as unknown as { _socket: Socket })._socket

/** In one packet, so that both have arrived when the first is read. */
function sayTwoThings(socket: WebSocket) {
  const raw = rawOf(socket)
  raw.cork()
  for (const word of ['please', 'now']) socket.send(word)
  raw.uncork()
}

const saying = (word: string) => async (hands: Handshake) => {
  expect(await hands.hear()).toBe('the word?')
  hands.say(word)
  expect(await hands.hear()).toBe('come in')
}

test('a line that proves its identity becomes a link, with the subprotocol that the server chose', async () => {
  await using at = await greeter()
  let spoken = ''
  const prove = async (hands: Handshake) => {
    spoken = hands.protocol
    await saying('please')(hands)
  }
  const line = dial({ url: at.url, protocols: ['first', 'second'], prove })
  expect(await (await line.connected()).call('greet', undefined)).toBe('hello')
  expect(spoken).toBe('second')
  await line.close()
})

test('a refusal reaches the dialling side with its status and detail, and the line redials', async () => {
  await using at = await greeter()
  let attempts = 0
  const prove = (hands: Handshake) => saying(attempts++ === 0 ? 'now' : 'please')(hands)
  const backoff = { minMs: 1, maxMs: 1, forbiddenMaxMs: 1 }
  const line = dial({ url: at.url, protocols: ['second'], prove, backoff })
  const [refused] = await once(line, 'refused')
  expect(refused).toMatchObject({ name: 'DialRefused', status: 403, detail: 'not “now”' })
  expect(await (await line.connected()).call('greet', undefined)).toBe('hello')
  await line.close()
})

test.each<[what: string, limits: HandshakeLimits, act: (socket: WebSocket) => void, why: RegExp]>([
  ['says nothing', { timeoutMs: 20 }, () => undefined, /no text within 20 ms/],
  ['goes away', {}, (socket) => socket.terminate(), /the socket closed/],
  ['sends bytes instead of text', {}, (socket) => socket.send(Buffer.from('please')), /out of turn/],
  ['says two things at once', {}, sayTwoThings, /out of turn/],
  ['says too much', { maxBytes: 100 }, (socket) => socket.send('x'.repeat(101)), /too many bytes/],
  ['says what never ends', { maxBytes: 100 }, (socket) => socket.send('x', { fin: false }), /no text|too many bytes/],
  [
    'pings without end',
    { maxBytes: 100 },
    (socket) => Array.from({ length: 50 }, () => socket.ping()),
    /too many bytes/,
  ],
])('one that %s is turned away', async (_what, limits, act, why) => {
  await using at = await greeter({ timeoutMs: 500, ...limits })
  const socket = new WebSocket(at.url, ['second'])
  socket.on('error', () => undefined)
  await once(socket, 'message')
  act(socket)
  await expect.poll(() => at.outcomes).toHaveLength(1)
  expect(at.outcomes[0]).toBeInstanceOf(DialRefused)
  await expect.poll(() => socket.readyState).toBe(socket.CLOSED)
  expect((at.outcomes[0] as DialRefused).message).toMatch(why)
})

test('a frame of megabytes costs only its first bytes: the socket is cut while it arrives', async () => {
  await using at = await greeter({ maxBytes: 4_096 })
  const socket = new WebSocket(at.url, ['second'])
  socket.on('error', () => undefined)
  await once(socket, 'message')
  // Three of its four MiB: if only whole messages counted, nothing would be noticed before the last one.
  const raw = rawOf(socket)
  raw.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x40, 0, 0, 1, 2, 3, 4]))
  raw.write(Buffer.alloc(3 * 1024 * 1024))
  await expect.poll(() => at.outcomes).toHaveLength(1)
  expect((at.outcomes[0] as DialRefused).message).toBe('too many bytes')
})
