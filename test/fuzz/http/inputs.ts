// Inputs by kind: bytes for one connection, and what becomes of it after them. Pure: the same dice make the same input.
import type { Dice } from '../dice.ts'
import type { Route } from './routes.ts'
import * as words from './words.ts'

export interface Input {
  kind: string
  bytes: Buffer
  /** After the bytes: waits for the answer, sends no more, or hangs up. */
  after: 'await' | 'end' | 'hang up'
  /** The request, if the bytes are one whole request: then one answer must come. */
  asked?: { method: string; path: string }
}

/** What inputs are made from. */
export interface Stock {
  routes: Route[]
  key: string
  operatorKey: string | undefined
  /** The ids of desktops in several states. */
  ids: string[]
}

interface Request {
  method: string
  path: string
  headers: [name: string, value: string][]
  body: Buffer | undefined
}

const methods = 'GET HEAD POST PUT PATCH DELETE OPTIONS TRACE QUERY PROPFIND M-SEARCH'.split(' ')

/** A request that is HTTP, however senseless; one that may have effects beyond its own desktops is not made. */
function request({ routes, key, operatorKey, ids }: Stock, dice: Dice): Request {
  const route = dice.pick(routes)
  const id = () => (dice.chance(0.7) ? dice.pick(ids) : words.segment(dice))
  const path = route.path
    .replaceAll('{id}', id)
    .replace('{path}', () => `tmp/${words.segment(dice)}`)
    // Without it events are sent for as long as the caller listens.
    .replace(/\/events$/, '$&?limit=5')
  const credential = path.startsWith('/admin') && dice.chance(0.7) ? operatorKey : key
  return {
    method: route.method,
    path,
    headers: credential ? [['Authorization', `Bearer ${credential}`]] : [],
    body: bodyFor(route, dice),
  }
}

function bodyFor({ body, method }: Route, dice: Dice): Buffer | undefined {
  if (body === 'bytes') return dice.bytes(500)
  if (body) return words.json(body, dice)
  return method !== 'GET' && dice.chance(0.2) ? dice.bytes(50) : undefined
}

function whole({ method, path, headers, body }: Request, more: [string, string][] = [['Connection', 'close']]): Buffer {
  const length: [string, string][] = body ? [['Content-Length', String(body.length)]] : []
  return Buffer.concat([
    head(method, path, [['Host', 'fuzz'], ...headers, ...length, ...more]),
    body ?? Buffer.alloc(0),
  ])
}

const head = (method: string, path: string, headers: [string, string][]): Buffer =>
  Buffer.from(
    `${method} ${path} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
    'latin1',
  )

const asked = (kind: string, { method, path }: Request, bytes: Buffer): Input => ({
  kind,
  bytes,
  after: 'await',
  asked: { method, path },
})

type Maker = (stock: Stock, dice: Dice) => Input

const body: Maker = (stock, dice) => {
  const made = request({ ...stock, routes: stock.routes.filter(({ body }) => body) }, dice)
  return asked('body', made, whole(made))
}

const query: Maker = (stock, dice) => {
  const made = request(stock, dice)
  made.path += words.query(dice)
  return asked('query', made, whole(made))
}

const path: Maker = (stock, dice) => {
  const made = request(stock, dice)
  const parts = made.path.split('/')
  for (const _ of dice.many(3, () => 0)) parts.splice(1 + dice.int(parts.length), dice.int(2), words.segment(dice))
  made.path = parts.join('/').replace(/^[^/]|^$/, '/$&')
  return asked('path', made, whole(made))
}

const method: Maker = (stock, dice) => {
  const made = { ...request(stock, dice), method: dice.pick(methods) }
  return asked('method', made, whole(made))
}

/** Some of them ask for an upgrade, or wish to be asked for their body: no one answer is sure to come. */
const headers: Maker = (stock, dice) => {
  const made = request(stock, dice)
  made.headers.push(...words.headers(dice))
  return { kind: 'headers', bytes: whole(made), after: 'await' }
}

const lines = [
  'GET',
  'GET / HTTP/9.9',
  'GET /healthz',
  'GET /healthz HTTP/1.0',
  'GET  /healthz HTTP/1.1',
  'get /healthz HTTP/1.1',
  'GET /\0 HTTP/1.1',
  'GET /a b HTTP/1.1',
  'GET healthz HTTP/1.1',
  'GET ?a HTTP/1.1',
  'GET // HTTP/1.1',
  'GET * HTTP/1.1',
  'OPTIONS * HTTP/1.1',
  'GET http://elsewhere.example/v1/desktops HTTP/1.1',
  'GET http:// HTTP/1.1',
  'GET https://a@b:99999/v1/desktops HTTP/1.1',
  'CONNECT elsewhere.example:443 HTTP/1.1',
  'CONNECT / HTTP/1.1',
  'PRI * HTTP/2.0',
  'BREW /pot HTTP/1.1',
  'GET /é HTTP/1.1',
  'GET /v1/desktops#x HTTP/1.1',
  `GET /${'x'.repeat(20_000)} HTTP/1.1`,
  `${'G'.repeat(500)} / HTTP/1.1`,
  '\x16\x03\x01\x02\x00\x01\x00',
  '\r\n\r\nGET /healthz HTTP/1.1',
]

const line: Maker = (stock, dice) => ({
  kind: 'request line',
  bytes: Buffer.from(
    `${dice.pick(lines)}${dice.pick(['\r\n', '\n', '\r'])}Host: x\r\nAuthorization: Bearer ${stock.key}\r\nConnection: close\r\n\r\n`,
    'latin1',
  ),
  after: 'await',
})

const brokenHeaders = [
  'X',
  ': x',
  'X : y',
  'X: a\0b',
  'X: a\x01b',
  'X: a\r\n folded',
  ' X: y',
  'Host: a\r\nHost: b',
  'Content-Length: -1',
  'Content-Length: abc',
  'Content-Length: +5',
  'Content-Length: 0x5',
  'Content-Length: 5, 5',
  'Content-Length: 5\r\nContent-Length: 6',
  'Content-Length: 99999999999999999999999',
  'Content-Length: 4\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: gzip',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding: identity',
  `X: ${'y'.repeat(20_000)}`,
  `${'X'.repeat(20_000)}: y`,
  Array.from({ length: 2_500 }, (_, i) => `X${i}: y`).join('\r\n'),
  'X: é',
  'X\n: y',
  'Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 9\r\nSec-WebSocket-Key: x',
]

const header: Maker = (stock, dice) => {
  const { method, path } = request(stock, dice)
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${stock.key}`,
    dice.pick(brokenHeaders),
  ]
  return { kind: 'header line', bytes: Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), after: 'await' }
}

const chunkings = [
  '5\r\nhello\r\n0\r\n\r\n',
  '5\r\nhel\r\n0\r\n\r\n',
  '5\r\nhelloooooo\r\n0\r\n\r\n',
  '-5\r\nhello\r\n0\r\n\r\n',
  'zz\r\n',
  '\r\n',
  'ffffffffffffffff\r\nx',
  'fffffffffffffffff\r\nx',
  `5;${'x'.repeat(20_000)}\r\nhello\r\n0\r\n\r\n`,
  '5;a=b\r\nhello\r\n0\r\n\r\n',
  '5\nhello\n0\n\n',
  '2\r\n{}\r\n0\r\nX-Trailer: 1\r\nContent-Length: 9\r\n\r\n',
  '2\r\n{}\r\n0\r\n\0\r\n\r\n',
  '0',
  '400000\r\n',
]

/** A length that is not what follows, or chunks that are none. */
const lies: Maker = (stock, dice) => {
  const made = request(stock, dice)
  const said = (name: string, value: string) =>
    head(made.method, made.path, [['Host', 'x'], ...made.headers, [name, value]])
  const given = made.body ?? Buffer.from('{}')
  const bytes = dice.chance(0.5)
    ? [said('Content-Length', String(dice.pick([given.length + 1, given.length >> 1, 0, 3_000_000, 9_000_000]))), given]
    : [said('Transfer-Encoding', 'chunked'), Buffer.from(dice.pick(chunkings))]
  return { kind: 'lying body', bytes: Buffer.concat(bytes), after: dice.pick(['await', 'end', 'hang up']) }
}

const half: Maker = (stock, dice) => {
  const bytes = whole(request(stock, dice))
  const cut = bytes.subarray(0, dice.int(bytes.length))
  return { kind: 'half a request', bytes: cut, after: dice.pick(['end', 'hang up']) }
}

const mutant: Maker = (stock, dice) => {
  const bytes = [...whole(request(stock, dice))]
  for (let left = 1 + dice.int(8); left > 0; left--) {
    bytes.splice(dice.int(bytes.length + 1), dice.int(3), ...dice.bytes(2))
  }
  return { kind: 'changed bytes', bytes: Buffer.from(bytes), after: dice.pick(['await', 'await', 'end', 'hang up']) }
}

const pipeline: Maker = (stock, dice) => {
  const some = Array.from({ length: 2 + dice.int(20) }, () => whole(request(stock, dice), []))
  const last = dice.chance(0.5) ? whole(request(stock, dice)) : dice.bytes(100)
  return { kind: 'pipeline', bytes: Buffer.concat([...some, last]), after: dice.pick(['await', 'end', 'hang up']) }
}

const noise: Maker = (_stock, dice) => ({ kind: 'noise', bytes: dice.bytes(400), after: dice.pick(['await', 'end']) })

const makers = [
  body,
  body,
  body,
  query,
  path,
  method,
  headers,
  headers,
  line,
  header,
  lies,
  half,
  mutant,
  pipeline,
  noise,
]

/** The input that this chance makes. */
export const inputOf = (stock: Stock, dice: Dice): Input => dice.pick(makers)(stock, dice)
