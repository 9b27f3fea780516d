// Guarantee: what is in flight is bounded, organisations take turns, a busy host delays only its own, what overtakes never
// waits for the rest, and a wait ends by its limit or by its signal.
import { setImmediate as tick } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Slot, type Ticket, WorkQueue, type WorkQueueOptions } from './work-queue.ts'

const never = new AbortController().signal

function queueOf(options: Partial<WorkQueueOptions> = {}) {
  const queue = new WorkQueue({ inAll: 100, onHost: () => 1, limitMs: 60_000, ...options })
  const began: string[] = []
  const slots = new Map<string, Slot>()
  const enter = (id: string, given: Partial<Ticket> = {}, signal = never) => {
    const ticket = { id, orgId: 'a', hostId: 'h', overtakes: false, begun: false, waitedMs: 0, ...given }
    const entered = queue.enter(ticket, signal).then((slot) => {
      began.push(id)
      slots.set(id, slot)
    })
    entered.catch(() => undefined)
    return entered
  }
  const end = async (id: string) => {
    slots.get(id)!.release()
    await tick()
  }
  return { queue, began, enter, end }
}

test('one organisation’s thousand wakes delay another’s one by at most one', async () => {
  const { queue, began, enter, end } = queueOf()
  for (let i = 0; i < 1_000; i++) void enter(`a${i}`)
  void enter('b', { orgId: 'b' })
  await tick()
  expect(queue.ahead('b')).toBe(1)
  expect(queue.ahead('a999')).toBe(999)
  await end('a0')
  await end(began.at(-1)!)
  expect(began).toContain('b')
  expect(queue.counts).toEqual({ taken: 1, waiting: 998 })
})

test('a slot is given at once where one is free and nothing waits for it, and otherwise not', async () => {
  const { queue, enter } = queueOf({ inAll: 2 })
  const first = queue.tryEnter({ hostId: 'h', overtakes: false })
  expect(first?.hostId).toBe('h')
  expect(queue.tryEnter({ hostId: 'h', overtakes: false })).toBeUndefined()
  expect(queue.tryEnter({ hostId: 'h', overtakes: true })?.hostId).toBe('h')
  expect(queue.tryEnter({ hostId: 'i', overtakes: false })?.hostId).toBe('i')
  expect(queue.tryEnter({ hostId: 'j', overtakes: false })).toBeUndefined()
  void enter('waits')
  first?.release()
  await tick()
  expect(queue.tryEnter({ hostId: 'h', overtakes: false })).toBeUndefined()
  expect(queue.counts).toEqual({ taken: 3, waiting: 0 })
})

test('a host whose slots are taken delays no other, and the limit in all holds', async () => {
  const { queue, began, enter, end } = queueOf({ inAll: 3 })
  void enter('h1', { hostId: 'h' })
  void enter('h2', { hostId: 'h' })
  for (const host of ['i', 'j', 'k']) void enter(host, { hostId: host, orgId: host })
  await tick()
  expect(began).toEqual(['h1', 'i', 'j'])
  await end('i')
  expect(began.at(-1)).toBe('k')
  await end('h1')
  expect(began.at(-1)).toBe('h2')
  for (const id of ['j', 'k', 'h2']) await end(id)
  expect(queue.counts).toEqual({ taken: 0, waiting: 0 })
})

test('at the limit in all, organisations take turns over all hosts', async () => {
  const { began, enter, end } = queueOf({ inAll: 1 })
  for (let i = 0; i < 10; i++) void enter(`a${i}`, { hostId: `h${i}` })
  for (let i = 0; i < 2; i++) void enter(`b${i}`, { hostId: `h${i}`, orgId: 'b' })
  await tick()
  for (let i = 0; i < 4; i++) await end(began.at(-1)!)
  expect(began.map((id) => id[0])).toEqual(['a', 'a', 'b', 'a', 'b'])
})

test('what has begun before goes first, and what overtakes does not wait for the rest', async () => {
  const { queue, began, enter, end } = queueOf()
  for (const id of ['1', '2', '3']) void enter(id)
  void enter('resumed', { begun: true, orgId: 'b' })
  void enter('destroy', { overtakes: true })
  void enter('destroy 2', { overtakes: true })
  await tick()
  expect(began).toEqual(['1', 'destroy'])
  expect([queue.ahead('resumed'), queue.ahead('2')]).toEqual([0, 1])
  await end('1')
  expect(began.at(-1)).toBe('resumed')
})

test('a wait ends by its signal, and the next one moves up', async () => {
  const { queue, began, enter, end } = queueOf()
  const superseded = new AbortController()
  void enter('1')
  const waiting = enter('2', {}, superseded.signal)
  void enter('3')
  superseded.abort(new Error('superseded'))
  await expect(waiting).rejects.toThrow('superseded')
  expect([queue.ahead('2'), queue.ahead('3')]).toEqual([undefined, 0])
  await end('1')
  expect(began).toEqual(['1', '3'])
})

test('the limit of a wait counts what was waited before; what has begun waits without one', async () => {
  const { enter } = queueOf({ limitMs: 60_000 })
  void enter('1')
  const late = enter('2', { waitedMs: 60_000 })
  const begun = enter('3', { waitedMs: 60_000, begun: true })
  await expect(late).rejects.toMatchObject({ code: 'waited_too_long' })
  expect(await Promise.race([begun.then(() => 'began', String), tick('waits')])).toBe('waits')
})
