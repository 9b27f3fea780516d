// What nobody should send: texts, numbers, JSON, header values, paths. Knows no route, and nothing of how they are sent.
import type { Dice } from '../dice.ts'
import type { Schema } from './routes.ts'

const uuid = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80'

const texts = [
  '',
  ' ',
  '0',
  '-1',
  'null',
  'true',
  'undefined',
  'NaN',
  '\0',
  'a\0b',
  '\u0007',
  '\ud800',
  'é',
  '\u202e',
  '😀'.repeat(50),
  '\u{10ffff}',
  "' or 1=1 --",
  '%00',
  '$(id)',
  '../../etc/passwd',
  uuid,
  uuid.toUpperCase(),
  `${uuid}0`,
  `{${uuid}}`,
  uuid.replaceAll('-', ''),
  '1e309',
  '9007199254740993',
  '0x10',
  'x'.repeat(300),
  'y'.repeat(70_000),
  '\n',
  '\r\nX-Injected: 1',
  '__proto__',
  'constructor',
]

export const text = (dice: Dice): string =>
  dice.chance(0.8) ? dice.pick(texts) : dice.bytes(40).toString(dice.pick(['latin1', 'utf8']))

const numbers = [0, -0, -1, 1.5, 1e21, -1e308, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, Number.MIN_VALUE, 5e-324]

/** Any JSON value, not deep. */
export function value(dice: Dice, depth = 0): unknown {
  const leaves = [() => text(dice), () => dice.pick(numbers), () => null, () => dice.chance(0.5)]
  if (depth > 3 || dice.chance(0.7)) return dice.pick(leaves)()
  if (dice.chance(0.5)) return dice.many(4, () => value(dice, depth + 1))
  return Object.fromEntries(dice.many(4, () => [text(dice), value(dice, depth + 1)] as const))
}

/** What the schema might well take. */
function sample(schema: Schema, dice: Dice): unknown {
  const choices = schema.anyOf ?? schema.oneOf
  if (choices) return sample(dice.pick(choices), dice)
  if (schema.enum) return dice.pick(schema.enum)
  if (schema.properties) {
    const kept = Object.entries(schema.properties).filter(() => dice.chance(0.9))
    return Object.fromEntries(kept.map(([name, inner]) => [name, sample(inner, dice)]))
  }
  const simple: Record<string, () => unknown> = {
    integer: () => dice.pick([0, 1, 2, dice.int(100)]),
    number: () => dice.int(100),
    boolean: () => dice.chance(0.5),
    null: () => null,
    array: () => dice.many(3, () => sample(schema.items ?? {}, dice)),
    object: () => ({}),
  }
  return (simple[schema.type ?? ''] ?? (() => dice.pick(['true', 'echo x', uuid])))()
}

/** A body for the schema in which something may be wrong: a field, its type, or the JSON itself. */
export function json(schema: Schema, dice: Dice): Buffer {
  const body = sample(schema, dice)
  const fields = Object.keys(schema.properties ?? {})
  const wrong: (() => string | Buffer)[] = [
    () => JSON.stringify(body),
    () => JSON.stringify({ ...(body as object), [dice.pick(fields) ?? 'x']: value(dice) }),
    () => JSON.stringify(spoilt(body, dice)),
    () => JSON.stringify({ ...(body as object), [text(dice)]: value(dice) }),
    () => JSON.stringify(value(dice)),
    () => `{"__proto__":${JSON.stringify(body)}}`,
    () => `{"constructor":{"prototype":{"tier":"small"}},"tier":"small"}`,
    () => cut(JSON.stringify(body), dice),
    () => JSON.stringify(body).replace('{', `{"${dice.pick(fields) ?? 'x'}":1,`),
    () => nested(dice),
    () => `{"${dice.pick(fields) ?? 'x'}":${'9'.repeat(1 + dice.int(400))}${dice.pick(['', 'e9999', '.5', '.'])}}`,
    () => `\ufeff${JSON.stringify(body)}`,
    () => Buffer.from(JSON.stringify(body), 'utf16le'),
    () =>
      Buffer.concat([Buffer.from('{"tier":"'), Buffer.from([0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80]), Buffer.from('"}')]),
    () => dice.bytes(200),
    () => dice.pick(['', ' ', 'null', '0', '""', '[]', '{', '{}}', "{'a':1}", 'tier=small', '<a/>', '{"a":1,}', 'NaN']),
  ]
  return Buffer.from(dice.pick(wrong)() as string)
}

/** The same with something else in one place, however deep. */
export function spoilt(body: unknown, dice: Dice): unknown {
  if (typeof body !== 'object' || body === null || dice.chance(0.1)) return value(dice)
  const entries = Object.entries(body)
  const at = dice.int(entries.length)
  const other = entries.map(([name, inner], i) => [name, i === at ? spoilt(inner, dice) : inner] as const)
  return Array.isArray(body) ? other.map(([, inner]) => inner) : Object.fromEntries(other)
}

const cut = (whole: string, dice: Dice): string => whole.slice(0, dice.int(whole.length + 1))

function nested(dice: Dice): string {
  const depth = dice.pick([10, 1_000, 100_000])
  const [open, close] = dice.pick([
    ['[', ']'],
    ['{"a":', '}'],
  ])
  return open.repeat(depth) + (dice.chance(0.5) ? `1${close.repeat(depth)}` : '')
}

/** A value that a header can carry at all, by the rules of HTTP: no line ends, no NUL. */
export const headerValue = (dice: Dice): string =>
  text(dice)
    .replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '?')
    .slice(0, 2_000)

/** Well-formed header lines that somebody might think of. */
export function headers(dice: Dice): [name: string, value: string][] {
  const junk = () => headerValue(dice)
  const known: (() => [string, string])[] = [
    () => [
      'Authorization',
      dice.pick([junk(), `Bearer ${junk()}`, `Basic ${junk()}`, 'Bearer svc_sk_', 'Bearer a.b.c']),
    ],
    () => ['Idempotency-Key', junk()],
    () => ['Content-Type', dice.pick([junk(), 'application/json; charset=nonsense', 'multipart/form-data', '/', ';;'])],
    () => ['Accept', dice.pick([junk(), '*/*;q=2', 'text/html', 'image/png'])],
    () => ['Content-Encoding', dice.pick(['gzip', 'br', 'identity', junk()])],
    () => ['Expect', dice.pick(['100-continue', '200-ok', junk()])],
    () => ['Upgrade', dice.pick(['websocket', 'h2c', 'WebSocket, foo', junk()])],
    () => ['Connection', dice.pick(['upgrade', 'keep-alive, upgrade', 'close, x-request-id', junk()])],
    () => ['Sec-WebSocket-Key', dice.pick(['dGhlIHNhbXBsZSBub25jZQ==', junk()])],
    () => ['Sec-WebSocket-Version', dice.pick(['13', '8', junk()])],
    () => ['Sec-WebSocket-Protocol', dice.pick(['binary', junk()])],
    () => ['Range', dice.pick(['bytes=0-1', 'bytes=-', junk()])],
    () => ['X-Forwarded-Host', junk()],
    () => ['X-HTTP-Method-Override', 'DELETE'],
    () => ['Origin', dice.pick(['null', 'https://elsewhere.example', junk()])],
    () => ['If-Match', junk()],
    () => ['Trailer', 'Content-Length'],
    () => ['Cookie', junk()],
    () => [dice.pick(['X-A', '__proto__', 'constructor', 'hasOwnProperty']), junk()],
  ]
  return dice.many(5, () => dice.pick(known)())
}

const segments = [
  '',
  '.',
  '..',
  '%2e%2e',
  '%',
  '%zz',
  '%00',
  '%ff',
  '%c0%ae',
  '%ed%a0%80',
  '%252e',
  '%2f',
  '*',
  ':id',
  'a;b',
  '~',
  uuid,
  uuid.toUpperCase(),
  `${uuid}%20`,
  'x'.repeat(300),
  'x'.repeat(9_000),
]

/** A piece of a path as it may stand in a request line. */
export const segment = (dice: Dice): string =>
  dice.chance(0.7) ? dice.pick(segments) : encodeURIComponent(text(dice).toWellFormed())

const names = 'wait state limit cursor start end mode org_id __proto__ constructor'.split(' ')
const values = [
  '',
  'true',
  'false',
  'TRUE',
  '0',
  '-1',
  '1e3',
  '1.5',
  'NaN',
  'Infinity',
  uuid,
  'awake',
  '644',
  '%',
  '%00',
  '%ff',
]

/** A query, with its question mark; often none. */
export function query(dice: Dice): string {
  if (dice.chance(0.4)) return ''
  const pairs = dice.many(4, () => `${dice.pick(names)}=${dice.chance(0.7) ? dice.pick(values) : segment(dice)}`)
  return `?${pairs.join(dice.pick(['&', '&', ';', '&&']))}`
}
