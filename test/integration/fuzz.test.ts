// Guarantee: whatever comes over the wire, nothing fails, nothing is left behind, and every answer is a problem that can be
// found in the log. `npm run fuzz` goes on for as long as one likes.

import { newId } from '@dormouse/contract'
import { usedBytes } from '@dormouse/process/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { diceOf, smallest } from '../fuzz/dice.ts'
import { inputOf } from '../fuzz/http/inputs.ts'
import { exchange } from '../fuzz/http/wire.ts'
import { ControlPlaneSubject } from '../fuzz/modes/control-plane.ts'
import { HostSubject } from '../fuzz/modes/host.ts'
import { HttpSubject } from '../fuzz/modes/http.ts'
import { Fuzz } from '../fuzz/run.ts'
import { Service } from '../fuzz/service.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const mib = 1024 * 1024
/** Connections that the SDK and the pool keep for later, both ends of them in this process. */
const keptAlive = 40

/** What a run may leave behind: connections, requests, sessions of the database, channels. */
function open(stack: Stack): Record<string, number> {
  const { pool, inFlight, channels } = stack.replica.parts
  const sockets = process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap')
  const sessions = pool.totalCount - pool.idleCount + pool.waitingCount
  return {
    sockets: sockets.length,
    requests: inFlight.count,
    sessions,
    channels: channels.open,
  }
}

test('six hundred malformed inputs bring about no 500, leave nothing open and no heap behind, and all goes on', async () => {
  await using stack = await Stack.start()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('fuzz')
  const target = { url: stack.url, key: stack.org.key, operatorKey }
  const subject = await HttpSubject.begin(await Service.at(target, () => undefined))
  const fuzz = new Fuzz(subject, 1)
  await fuzz.run(200)
  const before = open(stack)
  const heap = usedBytes()
  await fuzz.run(400)
  expect(await subject.verdict()).toEqual([])
  expect(fuzz.tally.faults).toEqual([])
  expect(fuzz.tally.inputs).toBe(600)
  await stack.settle()
  await waitFor('everything to be as before', () =>
    Object.entries(before).every(([what, count]) => open(stack)[what]! <= count + (what === 'sockets' ? keptAlive : 0)),
  )
  expect(usedBytes() - heap).toBeLessThan(16 * mib)
})

test('a hostile host ends no control plane, hangs none, and brings no customer a 500', async () => {
  const deadlines = { wakeDeadlineMs: 1_000, hibernateDeadlineMs: 1_000, destroyDeadlineMs: 1_000 }
  await using stack = await Stack.start({ controlPlane: deadlines })
  // Alarms are what an operator is told; a host's own failures are told as what they are.
  stack.chronicle.foresee(
    /no record in the database|runs on another host than the database names/,
    /runs that should be (stopped|hibernated)|runs that was never woken|should be awake is paused/,
    /later (turn|epoch)/,
    /implausible facts/,
    /interrupted/,
    /step failed|unexpected error/,
    /ledger/,
    /it is quarantined/,
  )
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('fuzz')
  const target = { url: stack.url, key: stack.org.key, operatorKey }
  await using subject = await HostSubject.begin(await Service.at(target, () => undefined))
  const fuzz = new Fuzz(subject, 1)
  await fuzz.run(30)
  expect(await subject.verdict()).toEqual([])
  expect(fuzz.tally.faults).toEqual([])
  expect(fuzz.tally.inputs).toBe(30)
  await stack.settle()
})

test('a hostile control plane ends no agent, hangs none, and keeps none from the one that behaves', async () => {
  await using subject = await ControlPlaneSubject.begin(1)
  const fuzz = new Fuzz(subject, 1)
  await fuzz.run(60)
  expect(await subject.verdict()).toEqual([])
  expect(fuzz.tally.faults).toEqual([])
  expect(fuzz.tally.inputs).toBe(60)
})

test('the same seed makes the same inputs', () => {
  const body = { properties: { tier: { enum: ['small'] } } }
  const stock = { routes: [{ method: 'POST', path: '/a/{id}', body }], key: 'k', operatorKey: undefined, ids: ['i'] }
  const inputs = (seed: number) =>
    Array.from({ length: 100 }, (_, at) => inputOf(stock, diceOf(seed, at)).bytes.toString('base64'))
  expect(inputs(7)).toEqual(inputs(7))
  expect(inputs(8)).not.toEqual(inputs(7))
})

test('an input that fails is made as small as one that still fails', async () => {
  const found = await smallest({ seed: 1, at: 3, timeoutMs: 20_000 }, async (dice) => {
    const input = { kind: dice.int(10), bytes: dice.bytes(300) }
    return { failed: input.bytes.length > 3, result: input }
  })
  expect([found?.kind, found?.bytes.length]).toEqual([0, 4])
})

describe('what was found once', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start({ hosts: 0 })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  const crlf = (...lines: string[]): string => lines.map((line) => `${line}\r\n`).join('')
  const upgrade = ['Connection: upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: x', 'Sec-WebSocket-Version: 9']

  /** What was found once, and what must come now. */
  const kept: [what: string, bytes: string, status: number, code: string][] = [
    ['what is not HTTP', crlf(`NONSENSE ${newId()}`, ''), 400, 'invalid_request'],
    ['headers without end', crlf('GET / HTTP/1.1', `X: ${'y'.repeat(20_000)}`, ''), 431, 'invalid_request'],
    ['a request that names no Host', crlf('GET /healthz HTTP/1.1', ''), 400, 'invalid_request'],
    ['a method that nothing takes', crlf('QUERY /healthz HTTP/1.1', 'Host: x', ''), 404, 'no_such_route'],
    ['an upgrade to nowhere', crlf('GET /nowhere HTTP/1.1', 'Host: x', ...upgrade, ''), 404, 'no_such_route'],
    [
      'an upgrade without a token',
      crlf('GET /agent/v1/link HTTP/1.1', 'Host: x', ...upgrade, ''),
      401,
      'unauthenticated',
    ],
    [
      'an upgrade that is no WebSocket handshake',
      crlf(`GET /screens/${newId()}/view/${'x'.repeat(43)} HTTP/1.1`, 'Host: x', ...upgrade, ''),
      400,
      'invalid_request',
    ],
  ]

  test.each(kept)('%s is a whole problem with a request id', async (_what, bytes, status, code) => {
    const { answers, stuck } = await over(stack, bytes)
    expect(stuck).toBe(false)
    expect(answers).toMatchObject([{ status, headers: { 'content-type': 'application/problem+json' } }])
    expect(JSON.parse(answers[0]!.text)).toMatchObject({ type: 'about:blank', status, code })
    expect(answers[0]!.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('what is broken behind a whole request is never its answer', async () => {
    const body = '{"tier":"small"}'
    const create = crlf(
      'POST /v1/desktops HTTP/1.1',
      'Host: x',
      `Authorization: Bearer ${stack.org.key}`,
      `Content-Length: ${body.length}`,
      '',
    )
    const { answers } = await over(stack, `${create}${body}\0\0\0\r\n\r\n`)
    expect(answers.filter(({ status }) => status !== 201)).toEqual([])
  })

  test('a host that enrols with characters that no database keeps is 400', async () => {
    const key = { kty: 'OKP', crv: 'Ed25519', x: 'x'.repeat(43) }
    const enrol = (more: object) =>
      stack.api('POST', '/agent/v1/enrol', { key: null, body: { token: 'x', name: 'x', public_key: key, ...more } })
    for (const [field, more] of [
      ['name', { name: 'a\0b' }],
      ['public_key.x', { public_key: { ...key, x: '\0'.repeat(43) } }],
    ] as const) {
      const { status, json } = await enrol(more)
      expect([status, json.field]).toEqual([400, field])
    }
    expect((await enrol({})).json.code).toBe('invite_spent')
  })
})

function over(stack: Stack, bytes: string) {
  const { hostname: host, port } = new URL(stack.url)
  return exchange({ host, port: Number(port) }, { kind: 'kept', bytes: Buffer.from(bytes, 'latin1'), after: 'await' })
}
