// Guarantee: what happens to calls and events, over a real loopback WebSocket and through its faults.
import { once } from 'node:events'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import type { WebSocket } from 'ws'
import { CallFailed, CallRefused, CallTimeout, FrameTooLarge, LinkLost } from './errors.ts'
import type { LinkLog } from './link-log.ts'
import type { HandlerContext } from './peer.ts'
import { Peer } from './peer.ts'
import { joined, pair } from './testing/pair.ts'

const never = () => new Promise<never>(() => {})

/** A handler that reports when it begins, and waits until it is released. */
function heldHandler() {
  const begun = Promise.withResolvers<HandlerContext>()
  const release = Promise.withResolvers<unknown>()
  const handler = (_payload: unknown, context: HandlerContext) => {
    begun.resolve(context)
    return release.promise
  }
  return { handler, begun: begun.promise, release: release.resolve }
}

function recordingLog() {
  const lines: { fields: Record<string, unknown>; message: string }[] = []
  const write = (fields: object, message: string) => void lines.push({ fields: { ...fields }, message })
  return { lines, log: { debug: write, warn: write, error: write } satisfies LinkLog }
}

test('either side calls the other and gets its reply', async () => {
  const shout = async (payload: unknown) => ({ loud: String(payload).toUpperCase() })
  await using link = await pair({ left: { handlers: { shout } }, right: { handlers: { shout } } })
  expect(await link.left.call('shout', 'hello')).toEqual({ loud: 'HELLO' })
  expect(await link.right.call('shout', 'back')).toEqual({ loud: 'BACK' })
})

test('calls run concurrently, and each gets its own reply in any order', async () => {
  const slow = heldHandler()
  await using link = await pair({ right: { handlers: { slow: slow.handler, echo: async (value) => value } } })
  const first = link.left.call('slow', undefined)
  const others = await Promise.all([1, 2, 3].map((value) => link.left.call('echo', value)))
  slow.release('at last')
  expect(others).toEqual([1, 2, 3])
  expect(await first).toBe('at last')
})

test('the request id arrives with the call', async () => {
  await using link = await pair({ right: { handlers: { whose: async (_payload, { requestId }) => requestId } } })
  expect(await link.left.call('whose', undefined, { requestId: 'r-17' })).toBe('r-17')
  // A side of the release before finds a field more in the frame, and leaves it alone.
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  expect(await link.left.call('whose', undefined, { requestId: 'r-18', traceparent })).toBe('r-18')
})

test('a handler may call back over the link that called it', async () => {
  await using link = await pair({
    left: { handlers: { double: async (value) => Number(value) * 2 } },
    right: { handlers: { ask: (value, { peer }) => peer.call('double', value) } },
  })
  expect(await link.left.call('ask', 21)).toBe(42)
})

test('events arrive in the order they were sent', async () => {
  await using link = await pair()
  const heard: unknown[] = []
  const all = Promise.withResolvers<void>()
  link.right.on('event', (name, payload) => {
    if (heard.push([name, payload]) === 500) all.resolve()
  })
  const told = Array.from({ length: 500 }, (_, i) => ['tick', i])
  for (const [name, payload] of told) link.left.emitEvent(name as string, payload)
  await all.promise
  expect(heard).toEqual(told)
})

test('a listener that fails on an event is logged, and the link stays up', async () => {
  const { lines, log } = recordingLog()
  await using link = await pair({ right: { log, handlers: { echo: async (value) => value } } })
  link.right.on('event', () => {
    throw new Error('a bug in a listener')
  })
  link.left.emitEvent('tick', 1)
  expect(await link.left.call('echo', 1)).toBe(1)
  expect(lines).toContainEqual(expect.objectContaining({ message: 'a listener failed on an event' }))
})

test('a refusal crosses two links unchanged', async () => {
  const refusal = Object.assign(new Error('unused'), { refusal: true, code: 'no_room', detail: 'host is full' })
  const refusing = async () => {
    throw refusal
  }
  await using far = await pair({ right: { handlers: { place: refusing } } })
  await using near = await pair({ right: { handlers: { place: () => far.left.call('place', undefined) } } })
  const error = await near.left.call('place', undefined).catch((thrown) => thrown)
  expect(error).toBeInstanceOf(CallRefused)
  expect(error).toMatchObject({ code: 'no_room', detail: 'host is full', refusal: true })
})

test('the error of a bug stays on its side, whose log has the same incident', async () => {
  const { lines, log } = recordingLog()
  const bug = async () => {
    throw new Error('secret path /var/lib/thing')
  }
  await using link = await pair({ right: { log, handlers: { bug } } })
  const error = await link.left.call('bug', undefined, { requestId: 'r-1' }).catch((thrown) => thrown)
  expect(error).toBeInstanceOf(CallFailed)
  expect(inspect(error, { showHidden: true })).not.toContain('secret')
  expect(lines).toContainEqual({
    message: 'a call failed',
    fields: expect.objectContaining({
      incident: (error as CallFailed).incident,
      call: 'bug',
      requestId: 'r-1',
      err: expect.any(Error),
    }),
  })
})

test.each(['nobody', 'constructor', '__proto__'])('a call without a handler (%s) is refused by name', async (name) => {
  await using link = await pair()
  await expect(link.left.call(name, undefined)).rejects.toMatchObject({ code: 'unknown_call' })
})

test('a timeout rejects the call and aborts its handler', async () => {
  const held = heldHandler()
  await using link = await pair({ right: { handlers: { held: held.handler, echo: async (value) => value } } })
  const call = expect(link.left.call('held', undefined, { timeoutMs: 20 })).rejects.toBeInstanceOf(CallTimeout)
  const { signal } = await held.begun
  await call
  if (!signal.aborted) await once(signal, 'abort')
  // Its late answer has no caller.
  held.release('late')
  expect(await link.left.call('echo', 1)).toBe(1)
})

test('a caller can give up, which aborts the handler', async () => {
  const held = heldHandler()
  await using link = await pair({ right: { handlers: { held: held.handler } } })
  const mind = new AbortController()
  const call = link.left.call('held', undefined, { signal: mind.signal, timeoutMs: Infinity })
  const { signal } = await held.begun
  mind.abort(new Error('changed my mind'))
  await expect(call).rejects.toThrow('changed my mind')
  if (!signal.aborted) await once(signal, 'abort')
})

test('a call whose signal is already aborted sends nothing', async () => {
  await using link = await pair()
  const signal = AbortSignal.abort(new Error('too late'))
  await expect(link.left.call('anything', undefined, { signal })).rejects.toThrow('too late')
})

test('more calls than the other side takes at once are refused, not queued', async () => {
  const held = heldHandler()
  await using link = await pair({ right: { maxInFlight: 2, handlers: { held: held.handler } } })
  const taken = [link.left.call('held', 1), link.left.call('held', 2)]
  await expect(link.left.call('held', 3)).rejects.toMatchObject({ code: 'too_many_calls' })
  held.release('done')
  expect(await Promise.all(taken)).toEqual(['done', 'done'])
})

test('a call after the close was not made', async () => {
  await using link = await pair()
  await link.left.close()
  expect(link.left.closed).toBe(true)
  await expect(link.left.call('echo', 1)).rejects.toMatchObject({ name: 'LinkLost', sent: false })
  expect(() => link.left.emitEvent('tick', 1)).toThrow(LinkLost)
})

test('a close gives its reason to the other side', async () => {
  await using link = await pair()
  const gone = once(link.right, 'close')
  await link.left.close(4001, 'taken over')
  expect(await gone).toEqual(['taken over'])
})

test('a cut settles every call with an unknown outcome and aborts every handler', async () => {
  const held = heldHandler()
  await using link = await pair({ right: { handlers: { held: held.handler } } })
  const calls = [1, 2, 3].map((value) => link.left.call('held', value))
  const { signal } = await held.begun
  link.proxy.cut()
  for (const call of await Promise.allSettled(calls)) {
    expect(call).toMatchObject({ reason: { name: 'LinkLost', sent: true } })
  }
  if (!signal.aborted) await once(signal, 'abort')
  expect(signal.reason).toBeInstanceOf(LinkLost)
})

test.each(['toTarget', 'toDialler'] as const)(
  'a frame cut in its middle (%s) is never half a frame',
  async (direction) => {
    let ran = 0
    const handlers = { count: async () => ++ran }
    await using link = await pair({ right: { handlers } })
    link.proxy.cutMidFrame(direction)
    await expect(link.left.call('count', 'x'.repeat(50_000))).rejects.toMatchObject({ name: 'LinkLost', sent: true })
    expect(ran).toBe(direction === 'toTarget' ? 0 : 1)
  },
)

test('both sides detect a silent link', async () => {
  const beat = { pingIntervalMs: 20, pingTimeoutMs: 40 }
  await using link = await pair({ left: beat, right: { ...beat, handlers: { never } } })
  const call = link.left.call('never', undefined)
  const gone = Promise.all([once(link.left, 'close'), once(link.right, 'close')])
  link.proxy.halfOpen()
  expect(await gone).toEqual([
    [expect.stringContaining('no sign of life')],
    [expect.stringContaining('no sign of life')],
  ])
  await expect(call).rejects.toMatchObject({ sent: true })
})

test('a quiet link that answers its pings stays up', async () => {
  await using link = await joined(
    (socket) => socket,
    (socket) => new Peer(socket, { pingIntervalMs: 5, pingTimeoutMs: 1_000 }),
  )
  for (let pings = 0; pings < 5; pings++) await once(link.left, 'ping')
  expect(link.right.closed).toBe(false)
})

test('a slow link only delays the reply', async () => {
  await using link = await pair({ right: { handlers: { echo: async (value) => value } } })
  link.proxy.delay(30)
  expect(await link.left.call('echo', 'slow')).toBe('slow')
})

test('a repeated call never runs twice: the link closes', async () => {
  let ran = 0
  await using link = await pair({ right: { handlers: { count: async () => ++ran } } })
  const gone = once(link.right, 'close')
  link.proxy.duplicateNext('toTarget')
  await link.left.call('count', undefined).catch((error) => expect(error).toBeInstanceOf(LinkLost))
  expect(await gone).toEqual(['frame 1 came instead of frame 2'])
  expect(ran).toBe(1)
})

test('a repeated reply closes the link', async () => {
  await using link = await pair({ right: { handlers: { echo: async (value) => value } } })
  const gone = once(link.left, 'close')
  link.proxy.duplicateNext('toDialler')
  expect(await link.left.call('echo', 1)).toBe(1)
  expect(await gone).toEqual(['frame 1 came instead of frame 2'])
})

test('events out of order are not delivered: the link closes', async () => {
  await using link = await pair()
  const heard: unknown[] = []
  link.right.on('event', (_name, payload) => heard.push(payload))
  const gone = once(link.right, 'close')
  link.proxy.reorderNext('toTarget')
  link.left.emitEvent('tick', 1)
  link.left.emitEvent('tick', 2)
  expect(await gone).toEqual(['frame 2 came instead of frame 1'])
  expect(heard).toEqual([])
})

test('a call over the size limit is not sent, and the link stays up', async () => {
  await using link = await pair({
    left: { maxFrameBytes: 1_000 },
    right: { handlers: { echo: async (value) => value } },
  })
  await expect(link.left.call('echo', 'x'.repeat(1_000))).rejects.toBeInstanceOf(FrameTooLarge)
  expect(await link.left.call('echo', 'small')).toBe('small')
})

test('a reply over the size limit, or not JSON, fails only its call', async () => {
  const handlers = { large: async () => 'x'.repeat(1_000), odd: async () => 1n, echo: async (value: unknown) => value }
  await using link = await pair({ right: { maxFrameBytes: 1_000, handlers } })
  await expect(link.left.call('large', undefined)).rejects.toBeInstanceOf(CallFailed)
  await expect(link.left.call('odd', undefined)).rejects.toBeInstanceOf(CallFailed)
  expect(await link.left.call('echo', 'small')).toBe('small')
})

test('a received frame over the size limit closes the link', async () => {
  await using link = await pair({ right: { maxFrameBytes: 1_000 } })
  await expect(link.left.call('echo', 'x'.repeat(2_000))).rejects.toMatchObject({
    sent: true,
    reason: 'a frame is over the size limit',
  })
})

test('large calls and replies, more than may be unsent at once, are sent one by one and the link stays up', async () => {
  const text = 'x'.repeat(1_000_000)
  const limits = { maxBufferedBytes: 2_000_000 }
  const large = async () => text
  const length = async (value: unknown) => String(value).length
  await using link = await pair({ left: limits, right: { ...limits, handlers: { large, length } } })
  const answers = await Promise.all(Array.from({ length: 10 }, () => link.left.call('large', undefined)))
  expect(answers.every((answer) => answer === text)).toBe(true)
  const lengths = await Promise.all(Array.from({ length: 10 }, () => link.left.call('length', text)))
  expect(new Set(lengths)).toEqual(new Set([text.length]))
})

test('a large call waits its turn: if it is cancelled before, it was not sent, and small ones pass it', async () => {
  await using link = await joined(
    (socket) => new Peer(socket),
    (socket) => socket,
  )
  link.right.pause()
  const large = 'x'.repeat(4_000_000)
  const change = new AbortController()
  const calls = Array.from({ length: 8 }, (_, at) => link.left.call(`large ${at}`, large, { signal: change.signal }))
  link.left.emitEvent('small', undefined)
  change.abort(new Error('changed my mind'))
  for (const outcome of await Promise.allSettled(calls)) expect(outcome).toMatchObject({ status: 'rejected' })
  link.left.emitEvent('last', undefined)
  const heard: string[] = []
  const last = Promise.withResolvers<void>()
  link.right.on('message', (data) => {
    const frame = JSON.parse(String(data)) as { type: string; name?: string }
    heard.push(frame.name ?? frame.type)
    if (frame.name === 'last') last.resolve()
  })
  link.right.resume()
  await last.promise
  const sent = heard.filter((each) => each.startsWith('large'))
  expect(sent.length).toBeLessThan(calls.length)
  expect(heard.filter((each) => each === 'cancel')).toHaveLength(sent.length)
  expect(heard.indexOf('small')).toBeLessThanOrEqual(sent.length)
})

test('a side that reads too slowly loses the link before our memory grows without bound', async () => {
  await using link = await pair({ left: { maxBufferedBytes: 1_000_000 } })
  link.proxy.halfOpen()
  const flood = () => {
    for (let told = 0; told < 100_000; told++) link.left.emitEvent('tick', 'x'.repeat(10_000))
  }
  expect(flood).toThrow(LinkLost)
  expect(link.left.closed).toBe(true)
})

test.each([
  ['nonsense', 'nonsense', 'a frame must be JSON'],
  ['bytes', Buffer.from([1, 2, 3]), 'a frame must be text'],
  ['an answer to nothing', '{"n":1,"type":"reply","to":1}', 'a reply frame answers a call that was never made'],
])('a client that sends %s is disconnected with the reason', async (_what, data, reason) => {
  await using link = await joined(
    (socket: WebSocket) => socket,
    (socket) => new Peer(socket),
  )
  const gone = once(link.left, 'close')
  link.left.send(data)
  const [code, said] = await gone
  expect({ code, said: String(said) }).toEqual({ code: 1002, said: reason })
})

test('an incident contains only characters that every log and database accepts', () => {
  expect(new CallFailed('a\u0000\nb\ud800').message).toMatch(/under incident a b\ufffd$/)
})
