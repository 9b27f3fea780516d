// Guarantee: what a log line contains, and what it never contains.
import { expect, test } from 'vitest'
import { bulkLog, createLog, onAlarm } from './log.ts'
import { outsideWork, withLogFields } from './work-context.ts'

function recorded(level?: string) {
  const lines: string[] = []
  const log = createLog({ name: 'api', level, destination: { write: (line) => void lines.push(line) } })
  return { log, lines }
}

const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJob3N0In0.c2lnbmF0dXJl'

test('a line is JSON with time, level, process, module and fields', () => {
  const { log, lines } = recorded()
  log.child({ module: 'desktops' }).info({ desktopId: 'd-1' }, 'wake accepted')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 30,
    name: 'api',
    module: 'desktops',
    desktopId: 'd-1',
    msg: 'wake accepted',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
  })
})

test.each<[string, object]>([
  ['a text', { said: 'A'.repeat(5_000_000) }],
  ['an error', { err: new Error('B'.repeat(5_000_000)) }],
  ['a list', { items: Array(200_000).fill({ a: 'x'.repeat(10) }) }],
  ['many fields', Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`f${at}`, 'C'.repeat(1_000)]))],
  ['many long texts', { a: Array(20).fill(Array(20).fill('D'.repeat(3_000))) }],
])('a line that quotes %s of megabytes is cut, and stays valid', (_what, facts) => {
  const { log, lines } = recorded()
  log.child({ module: 'agents' }).warn(facts, 'what was said')
  expect(lines[0]!.length).toBeLessThan(40_000)
  expect(JSON.parse(lines[0]!)).toMatchObject({ level: 40, name: 'api', module: 'agents', msg: 'what was said' })
})

test('respects the level', () => {
  const { log, lines } = recorded('warn')
  log.info('not this')
  log.warn('but this')
  expect(lines).toHaveLength(1)
})

test.each([
  ['a header', { request: { headers: { authorization: 'Bearer s3cret' } } }],
  ['an API key in a field', { apiKey: 's3cret' }],
  ['a key in snake case, deep', { a: { b: { c: [{ api_key: 's3cret' }] } } }],
  ['a password with quotes in it', { dbPassword: 's3"cret' }],
  ['a token', { enrolToken: 's3cret' }],
  ['a secret of a webhook in a sentence', { detail: 'signed with whsec_s3cretXYZ+/=' }],
  ['a key of ours in a sentence', { detail: 'the key svc_sk_s3cretXYZ was refused' }],
  ["an operator's key in an error", { err: new Error('bad key svc_op_s3cret') }],
  ['an invitation of a host in a sentence', { detail: 'dormouse_invite_s3cret-XYZ is spent' }],
  ['a bearer in raw headers', { rawHeaders: ['Authorization', 'Bearer s3cret'] }],
  ['the password of an address', { url: 'postgres://dormouse:s3cret@localhost/db' }],
])('hides %s, and the line stays JSON', (_what, fields) => {
  const { log, lines } = recorded()
  log.info({ ...fields, after: 'still here' }, 'something happened')
  expect(lines[0]).not.toMatch(/s3"?\\?"?cret/)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ after: 'still here', msg: 'something happened' })
})

test('hides a web token anywhere in a line', () => {
  const { log, lines } = recorded()
  log.info({ note: `got ${jwt}` }, `shown ${jwt}`)
  expect(lines[0]).not.toContain('c2lnbmF0dXJl')
})

test.each(['token', 'eyJ-', '//a:', 'Bearer ', '":"'])('a line that repeats %o does not stall the process', (piece) => {
  const { log, lines } = recorded()
  const text = piece.repeat(100_000)
  log.info({ [text]: text }, 'what a guest wrote')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ msg: 'what a guest wrote' })
})

test('keeps ordinary fields', () => {
  const { log, lines } = recorded()
  const facts = {
    desktopId: '0198f1c2-7c1e-7000-8000-000000000000',
    tokens: 12,
    path: '/v1/desktops/:id',
    url: 'http://a:80/b@c',
  }
  log.info(facts, 'a fact')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject(facts)
})

test('every line of a piece of work has its fields, also after an await, and no other line has them', async () => {
  const { log: root, lines } = recorded()
  const log = root.child({ module: 'desktops' })
  await withLogFields({ request: 'r-1' }, async () => {
    await Promise.resolve()
    withLogFields({ operation: 'o-1' }, () => log.info({ desktop: 'd-1' }, 'inner'))
    log.debug('not at this level')
    outsideWork(() => log.info('a connection'))
  })
  log.info('later')
  const parsed = lines.map((line) => JSON.parse(line))
  expect(parsed.map(({ request, operation }) => [request, operation])).toEqual([
    ['r-1', 'o-1'],
    [undefined, undefined],
    [undefined, undefined],
  ])
  expect(parsed[0].desktop).toBe('d-1')
})

test('alarms of a log and its children are noticed by their kind, until the listener leaves', () => {
  const { log, lines } = recorded()
  const kinds: string[] = []
  const leave = onAlarm(log, (kind) => kinds.push(kind))
  log.child({ module: 'usage' }).child({ host: 'h' }).error({ alarm: true, alarmKind: 'ledger' }, 'one')
  log.error({ alarm: true }, 'two')
  log.error({ err: new Error('none') }, 'three')
  leave()
  log.error({ alarm: true, alarmKind: 'ledger' }, 'four')
  expect(kinds).toEqual(['ledger', 'other'])
  expect(lines).toHaveLength(4)
})

test('lines in bulk have the form of the others, whatever their texts contain, and the level of the log', () => {
  const { log, lines } = recorded()
  const write = bulkLog(log, { module: 'http' })
  write('debug', { route: '/healthz' }, 'request')
  const fields = { route: '/v1/desktops/:id', caller: 'a"b\\c\n\u2028é\ud800', status: 200, aborted: true }
  write('info', { ...fields, org: undefined }, 'request')
  log.child({ module: 'http' }).info({ ...fields }, 'request')
  const [bulk, usual] = lines.map((line) => JSON.parse(line))
  expect(lines).toHaveLength(2)
  expect(bulk).toEqual({ ...usual, time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) })
})
