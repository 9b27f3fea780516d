// Guarantee: a file goes into a guest and out of it byte for byte, whole or not at all, whatever its callers do on the way.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { checked } from '../openapi.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { type ApiWish, send } from './parts/api.ts'

const mib = 1024 * 1024
const limit = 8 * mib
const fileOf = (id: string, path: string) => `/v1/desktops/${id}/files/${path}`
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** The bytes of a file, and what came with them. */
async function read(stack: Stack, id: string, path: string) {
  const answer = await fetch(stack.url + fileOf(id, path), { headers: { authorization: `Bearer ${stack.org.key}` } })
  return { status: answer.status, headers: answer.headers, bytes: new Uint8Array(await answer.arrayBuffer()) }
}

/** A request whose body the test sends as it likes. */
function open(stack: Stack, method: string, path: string, headers: Record<string, string> = {}): ClientRequest {
  const { hostname, port } = new URL(stack.url)
  return httpRequest({
    host: hostname,
    port,
    method,
    path,
    agent: false,
    headers: { authorization: `Bearer ${stack.org.key}`, ...headers },
  })
}

async function answerOf(stack: Stack, sent: ClientRequest) {
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const text = Buffer.concat(await response.toArray()).toString()
  const { statusCode: status = 0, headers } = response
  await checked(stack.url, { method: sent.method, path: sent.path, status, headers, text })
  return { status, json: JSON.parse(text) }
}

const bytesOf: [what: string, bytes: Buffer][] = [
  ['nothing', Buffer.alloc(0)],
  ['JSON that is none', Buffer.from('{"broken')],
  ['all byte values', Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
  ['3 MiB', randomBytes(3 * mib)],
  ['exactly 8 MiB', randomBytes(limit)],
  ['8 MiB of zeros', Buffer.alloc(limit)],
]
test.each(bytesOf)('%s comes out as it went in', async (_what, bytes) => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  for (const type of ['application/json', 'text/plain; charset=nonsense', 'no type at all', undefined]) {
    const headers: Record<string, string> = type ? { 'content-type': type } : {}
    const put = await stack.api('PUT', fileOf(id, 'srv/a/b.json'), { body: bytes, headers })
    expect([put.status, put.json]).toEqual([200, { path: '/srv/a/b.json', size: bytes.length }])
    if (bytes.length > mib) break
  }
  const got = await read(stack, id, 'srv/a/b.json')
  expect([got.status, got.headers.get('content-type')]).toEqual([200, 'application/octet-stream'])
  expect(hash(got.bytes)).toBe(hash(bytes))
})

test('what was written and read leaves no channel at either end', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.api('PUT', fileOf(id, 'srv/x'), { body: Buffer.alloc(mib) })
  for (let i = 0; i < 3; i++) expect((await read(stack, id, 'srv/x')).bytes).toHaveLength(mib)
  expect((await stack.api('GET', fileOf(id, 'srv/none'))).status).toBe(404)
  await waitFor('the channels to go', () => stack.channels === 0 && stack.host.channels === 0)
})

test('what exec leaves can be read, and what is written can be run by exec', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'echo said > /srv/word')
  expect(Buffer.from((await read(stack, id, 'srv/word')).bytes).toString()).toBe('said\n')
  await stack.api('PUT', fileOf(id, 'run/n%C3%A4me%20%22x%22%0Ay'), { body: 'wörd', headers: {} })
  expect((await stack.exec(id, ['cat', '/run/näme "x"\ny'])).json.stdout).toBe('wörd')
})

test('what names no file is 400 before anything is looked up, and a mode must be one', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const id = newId()
  const cases: [field: string, method: string, path: string][] = [
    ['id', 'PUT', '/v1/desktops/nonsense/files/a'],
    ['id', 'GET', '/v1/desktops/nonsense/files/a'],
    ['path', 'PUT', fileOf(id, '')],
    ['path', 'GET', fileOf(id, '')],
    ['path', 'GET', fileOf(id, 'a/')],
    ...['../a', 'a/../b', 'a/..', '%2e%2e/a', 'a%2f..%2fb', 'a%5c..%5cb', '..%5ca', '%252e%252e/a', 'a%00b'].flatMap(
      (path): [string, string, string][] => [
        ['path', 'PUT', fileOf(id, path)],
        ['path', 'GET', fileOf(id, path)],
      ],
    ),
    ...['', '9', '0888', 'rw', '-644', '00644', '0o644'].map((mode): [string, string, string] => [
      'mode',
      'PUT',
      `${fileOf(id, 'a')}?mode=${mode}`,
    ]),
    ['mode', 'PUT', `${fileOf(id, 'a')}?mode=644&mode=644`],
  ]
  for (const [field, method, path] of cases) {
    const answer = await stack.api(method, path, method === 'PUT' ? { body: 'x' } : {})
    expect([method, path, answer.status, answer.json.field]).toEqual([method, path, 400, field])
  }
  for (const path of ['%zz', 'a%ff', '%']) {
    expect([path, (await stack.api('GET', fileOf(id, path))).status]).toEqual([path, 400])
  }
  for (const mode of ['644', '0644', '4755']) {
    expect((await stack.api('PUT', `${fileOf(id, 'a')}?mode=${mode}`, { body: 'x' })).status).toBe(404)
  }
})

test('a missing desktop and a foreign one are the same 404, a missing file another', async () => {
  await using stack = await Stack.start()
  const { key } = await stack.otherOrg
  const { id } = await stack.desktop('awake')
  for (const [method, wish] of [
    ['PUT', { body: 'x' }],
    ['GET', {}],
  ] as [string, ApiWish][]) {
    const foreign = await stack.api(method, fileOf(id, 'etc/x'), { ...wish, key })
    const missing = await stack.api(method, fileOf(newId(), 'etc/x'), { ...wish, key })
    expect([foreign.status, foreign.json.code, foreign.text]).toEqual([404, 'not_found', missing.text])
  }
  const file = await stack.api('GET', fileOf(id, 'etc/x'))
  expect([file.status, file.json.code]).toEqual([404, 'file_not_found'])
  expect(file.json.detail).not.toBe((await stack.api('GET', fileOf(newId(), 'x'))).json.detail)
})

test('a desktop that is not awake is 409, a host that is away 503', async () => {
  await using stack = await Stack.start()
  for (const state of ['created', 'hibernated', 'stopped', 'destroyed'] as const) {
    const { id } = await stack.desktop(state)
    for (const method of ['PUT', 'GET']) {
      const answer = await stack.api(method, fileOf(id, 'srv/x'), method === 'PUT' ? { body: 'x' } : {})
      expect([state, method, answer.status, answer.json.code]).toEqual([state, method, 409, 'not_awake'])
    }
  }
  const { id } = await stack.desktop('awake')
  await stack.killAgent()
  for (const method of ['PUT', 'GET']) {
    const answer = await stack.api(method, fileOf(id, 'srv/x'), method === 'PUT' ? { body: 'x' } : {})
    expect([method, answer.status, answer.json.code]).toEqual([method, 503, 'host_unreachable'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  }
})

test('who sends slowly to where it cannot go is told before all is sent', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  const sent = open(stack, 'PUT', fileOf(id, 'srv/x'), { 'content-length': '5' })
  sent.write('half')
  const { status, json } = await answerOf(stack, sent)
  expect([status, json.code]).toEqual([409, 'not_awake'])
  sent.end('!')
})

const guestCodes = [
  'no_space',
  'quota_exceeded_in_guest',
  'file_too_large',
  'busy',
  'io_error',
  'not_connected',
  'file_refused',
  'read_only',
  'permission_denied',
  'symlink_loop',
] as const

test('what the guest’s file system refuses is 409 with its name', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'echo x > /srv/file')
  const put = async (path: string) => (await stack.api('PUT', fileOf(id, path), { body: 'x' })).json.code
  expect(await put('srv')).toBe('is_directory')
  expect(await put('srv/file/below')).toBe('not_directory')
  expect(await put('dev/null')).toBe('not_regular')
  const get = await stack.api('GET', fileOf(id, 'srv'))
  expect([get.status, get.json.code]).toEqual([409, 'is_directory'])
  for (const code of guestCodes) {
    stack.host.driver.faults.failNext('writeFile', 1, code)
    const answer = await stack.api('PUT', fileOf(id, 'srv/file'), { body: 'new' })
    expect([answer.status, answer.json.code, answer.json.detail]).toEqual([
      409,
      code,
      expect.stringMatching(/^\/srv\/file: ./),
    ])
    expect(answer.headers['retry-after']).toBeUndefined()
  }
  expect((await stack.api('GET', fileOf(id, 'srv/two%0alines'))).json.detail).toMatch(/^"\/srv\/two\\nlines": /)
  expect(Buffer.from((await read(stack, id, 'srv/file')).bytes).toString()).toBe('x\n')
})

test('a guest that stands still is 504, one that goes away in the middle 503, and neither leaves half a file', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  stack.host.driver.faults.failNext('writeFile', 1, 'guest_deadline')
  const late = await stack.api('PUT', fileOf(id, 'srv/x'), { body: 'x' })
  expect([late.status, late.json.code, late.headers['retry-after']]).toEqual([504, 'guest_deadline', undefined])
  stack.host.driver.faults.failNext('readFile', 1, 'guest_deadline')
  await stack.exec(id, 'echo y > /srv/y')
  expect((await stack.api('GET', fileOf(id, 'srv/y'))).status).toBe(504)
  stack.host.driver.faults.hang('writeFile')
  const stuck = stack.api('PUT', fileOf(id, 'srv/x'), { body: 'x' })
  await waitFor('the transfer to hang', () => stack.channels > 0)
  await stack.ask(id, 'hibernate')
  expect([(await stuck).status]).toEqual([503])
  await stack.ask(id, 'wake')
  expect((await stack.api('GET', fileOf(id, 'srv/x'))).json.code).toBe('file_not_found')
})

test('8 MiB and a byte are 413, told, not told, or to nobody; the old file stays and the desktop is of use', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'echo old > /srv/x')
  const big = Buffer.alloc(limit + 1, 'x')
  for (const target of [id, newId(), (await stack.desktop()).id]) {
    const told = await stack.api('PUT', fileOf(target, 'srv/x'), { body: big })
    expect([told.status, told.json.code]).toEqual([413, 'payload_too_large'])
    const chunked = open(stack, 'PUT', fileOf(target, 'srv/x'), { 'transfer-encoding': 'chunked' })
    chunked.end(big)
    expect((await answerOf(stack, chunked)).status).toBe(413)
  }
  const fits = open(stack, 'PUT', fileOf(newId(), 'srv/x'), { 'transfer-encoding': 'chunked' })
  fits.end(Buffer.alloc(limit))
  expect((await answerOf(stack, fits)).status).toBe(404)
  expect((await stack.exec(id, 'cat /srv/x')).json.stdout).toBe('old\n')
})

test('a withheld body is not asked for where it is known to be too large, and asked for where it is not', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const asked = async (length: number) => {
    const sent = open(stack, 'PUT', fileOf(id, 'srv/x'), { 'content-length': String(length), expect: '100-continue' })
    let continued = false
    sent.on('continue', () => {
      continued = true
      sent.end(Buffer.alloc(length))
    })
    sent.flushHeaders()
    const { status } = await answerOf(stack, sent)
    return { status, continued }
  }
  expect(await asked(limit + 1)).toEqual({ status: 413, continued: false })
  expect(await asked(5)).toEqual({ status: 200, continued: true })
})

test('a caller who goes away in the middle of an upload leaves the old file, and no channel', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'echo old > /srv/x')
  const socket = connect(Number(new URL(stack.url).port), '127.0.0.1')
  const head = `PUT ${fileOf(id, 'srv/x')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${stack.org.key}\r\n`
  socket.write(`${head}Content-Length: ${4 * mib}\r\n\r\n`)
  socket.write(Buffer.alloc(2 * mib))
  await waitFor('the transfer to begin', () => stack.channels > 0)
  socket.destroy()
  await waitFor('the channel to go', () => stack.channels === 0)
  expect((await stack.exec(id, 'cat /srv/x')).json.stdout).toBe('old\n')
})

test('a slow reader holds the guest back, and a reader who goes away ends the transfer', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.api('PUT', fileOf(id, 'srv/x'), { body: Buffer.alloc(limit, 'x') })
  const { faults } = stack.host.driver
  const sent = open(stack, 'GET', fileOf(id, 'srv/x'))
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.pause()
  let before: number | undefined = -1
  await waitFor('the guest to be held back', async () => {
    const still = faults.bytesRead === before
    before = faults.bytesRead
    await new Promise((resolve) => setTimeout(resolve, 100))
    return still && before
  })
  expect(before).toBeLessThan(limit)
  response.destroy()
  await waitFor('the channel to go', () => stack.channels === 0)
  expect((await stack.exec(id, 'echo on')).json.stdout).toBe('on\n')
})

test('a transfer that breaks off in the middle of a read never looks like the end of the file', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.api('PUT', fileOf(id, 'srv/x'), { body: Buffer.alloc(limit, 'x') })
  const sent = open(stack, 'GET', fileOf(id, 'srv/x'))
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.pause()
  stack.host.driver.die(id)
  await expect(response.toArray()).rejects.toThrow(/aborted/)
  await stack.becomes(id, 'stopped')
})

test('a part of a file is 206, none 416, and of a changed file the whole', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const bytes = randomBytes(200_000)
  await stack.api('PUT', fileOf(id, 'srv/x'), { body: bytes })
  const part = async (headers: Record<string, string>) => {
    const answer = await fetch(stack.url + fileOf(id, 'srv/x'), {
      headers: { authorization: `Bearer ${stack.org.key}`, ...headers },
    })
    const got = Buffer.from(await answer.arrayBuffer())
    return { status: answer.status, range: answer.headers.get('content-range'), etag: answer.headers.get('etag'), got }
  }
  const { status, range, etag, got } = await part({ range: 'bytes=70000-150000' })
  expect([status, range, got.equals(bytes.subarray(70_000, 150_001))]).toEqual([206, 'bytes 70000-150000/200000', true])
  const rest = await part({ range: 'bytes=150001-', 'if-range': etag! })
  expect([rest.status, rest.got.equals(bytes.subarray(150_001))]).toEqual([206, true])
  expect((await part({ range: 'bytes=-5' })).got.equals(bytes.subarray(-5))).toBe(true)
  const none = await part({ range: 'bytes=200000-' })
  expect([none.status, none.range, JSON.parse(none.got.toString()).code]).toEqual([
    416,
    'bytes */200000',
    'range_not_satisfiable',
  ])
  expect(await part({ range: 'bytes=0-1,5-6' })).toMatchObject({ status: 200, range: null, etag })
  await stack.api('PUT', fileOf(id, 'srv/x'), { body: 'new' })
  const changed = await part({ range: 'bytes=150001-', 'if-range': etag! })
  expect([changed.status, changed.range, String(changed.got)]).toEqual([200, null, 'new'])
  expect((await stack.api('GET', fileOf(id, 'srv/none'), { headers: { range: 'bytes=0-1' } })).status).toBe(404)
  await waitFor('the channels to go', () => stack.channels === 0 && stack.host.channels === 0)
})

test('HEAD and the other methods run no transfer', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  for (const method of ['HEAD', 'POST', 'DELETE', 'PATCH']) {
    const answer = await send(stack.url + fileOf(newId(), 'a'), method, { key: stack.org.key })
    expect([method, answer.status, answer.headers.allow]).toEqual([method, 405, 'GET, PUT'])
  }
  expect((await send(stack.url + fileOf(newId(), 'a'), 'HEAD', {})).status).toBe(401)
})

test('twenty transfers at once, both ways, keep to themselves', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const files = Array.from({ length: 20 }, (_, i) => ({ path: `run/f${i}`, bytes: randomBytes(100_000 + i) }))
  const puts = files.map(({ path, bytes }) => stack.api('PUT', fileOf(id, path), { body: bytes }))
  expect((await Promise.all(puts)).map(({ status }) => status)).toEqual(files.map(() => 200))
  const gets = await Promise.all(files.map(({ path }) => read(stack, id, path)))
  expect(gets.map(({ bytes }) => hash(bytes))).toEqual(files.map(({ bytes }) => hash(bytes)))
})

test('a body that is coded, or a part, is refused on every route, and the file stays', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.api('PUT', fileOf(id, 'srv/x'), { body: 'old' })
  const at = `/v1/desktops/${id}`
  const { url } = (await stack.api('POST', `${at}/file-urls`, { body: { path: '/srv/x', method: 'PUT' } })).json
  const upload = (await stack.api('POST', `${at}/uploads?path=/srv/x`)).headers.location as string
  const routes: [method: string, path: string, headers?: Record<string, string>][] = [
    ['PUT', fileOf(id, 'srv/x')],
    ['PUT', new URL(url).pathname],
    ['POST', `${at}/uploads?path=/srv/x`, { 'upload-complete': '?1' }],
    ['PATCH', upload, { 'upload-offset': '0', 'upload-complete': '?1' }],
    ['POST', `${at}/exec`],
    ['POST', `${at}/entries`],
    ['POST', '/v1/desktops'],
  ]
  const kinds: [status: number, headers: Record<string, string>][] = [
    [415, { 'content-encoding': 'gzip' }],
    [415, { 'content-encoding': 'Br' }],
    [415, { 'content-encoding': 'identity, zstd' }],
    [415, { 'content-transfer-encoding': 'base64' }],
    [400, { 'content-range': 'bytes 3-5/10' }],
    [400, { 'content-range': 'lines 1-2/3' }],
    [400, { 'if-match': '"one"' }],
    [400, { 'if-none-match': '*' }],
    [400, { 'if-unmodified-since': 'Wed, 21 Oct 2015 07:28:00 GMT' }],
    [400, { idempotency_key: 'one' }],
    [400, { 'x-idempotency-key': 'one' }],
  ]
  for (const [method, path, more] of routes) {
    for (const [status, headers] of kinds) {
      const answer = await stack.api(method, path, { body: 'new', headers: { ...more, ...headers } })
      const field = status === 400 ? Object.keys(headers)[0] : undefined
      const got = [method, path, headers, answer.status, answer.json.field?.toLowerCase()]
      expect(got).toEqual([method, path, headers, status, field])
    }
  }
  expect(
    (await stack.api('PUT', fileOf(id, 'srv/x'), { body: 'n', headers: { 'content-encoding': 'gzip' } })).headers,
  ).toMatchObject({
    'accept-encoding': 'identity',
  })
  expect(Buffer.from((await read(stack, id, 'srv/x')).bytes).toString()).toBe('old')
  const plain = await stack.api('PUT', fileOf(id, 'srv/x'), {
    body: 'new',
    headers: { 'content-encoding': 'identity' },
  })
  expect(plain.status).toBe(200)
})

test('a file whose size nobody knows before its end has the same bytes by every route', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const short = fileOf(id, 'proc/version')
  const version = (await stack.api('GET', short)).text
  for (const [range, from, to] of [
    ['bytes=0-4', 0, 5],
    ['bytes=5-', 5, undefined],
    ['bytes=-3', -3, undefined],
  ] as const) {
    const part = await stack.api('GET', short, { headers: { range } })
    expect([range, part.status, part.text]).toEqual([range, 206, version.slice(from, to)])
  }
  // Too long to be read before it is sent.
  const path = '/proc/kallsyms'
  const whole = hash((await read(stack, id, path.slice(1))).bytes)
  const urlOf = async (body: object) =>
    (await stack.api('POST', `/v1/desktops/${id}/file-urls`, { body: { path, method: 'GET', ...body } })).json.url
  for (const more of [{}, { once: true }, { max_bytes: 64 * mib }])
    expect(hash(await (await fetch(await urlOf(more))).bytes())).toBe(whole)
  expect((await fetch(await urlOf({ max_bytes: 10 }))).status).toBe(413)
  for (const range of ['bytes=0-4', 'bytes=5-', 'bytes=-3', 'bytes=500-']) {
    const part = await stack.api('GET', fileOf(id, path.slice(1)), { headers: { range } })
    const found = [range, part.status, part.headers['content-range'], hash(Buffer.from(part.text))]
    expect(found).toEqual([range, 200, undefined, whole])
  }
})
