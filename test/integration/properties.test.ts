// Guarantee: whatever anybody may think of as header, id or body, the answer is one that the contract has for it.
import { newId } from '@dormouse/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { type ApiWish, send } from './parts/api.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
})
afterAll(() => stack[Symbol.asyncDispose]())

const holds = <T>(name: string, given: fc.Arbitrary<T>, check: (value: T) => Promise<void>, numRuns = 30) =>
  test(name, () => fc.assert(fc.asyncProperty(given, check), { numRuns }))

/** What a header can carry: visible bytes, spaces and tabs within, and no white space around. */
const latin = (most: number) =>
  fc
    .array(fc.oneof(fc.integer({ min: 0x20, max: 0x7e }), fc.integer({ min: 0xa0, max: 0xff }), fc.constant(9)), {
      maxLength: most,
    })
    .map((codes) => String.fromCharCode(...codes).replace(/^[\t ]+|[\t ]+$/g, ''))
const ascii = fc
  .array(fc.integer({ min: 0x20, max: 0x7e }), { minLength: 1, maxLength: 255 })
  .map((codes) => String.fromCharCode(...codes))
  .filter((text) => text.trim() === text)

const credential = fc.oneof(
  latin(200),
  latin(100).map((text) => `Bearer ${text}`),
  fc.stringMatching(/^[A-Za-z0-9]{43}$/).map((text) => `Bearer svc_sk_${text}`),
  fc.tuple(fc.base64String(), fc.base64String(), fc.base64String()).map((parts) => `Bearer ${parts.join('.')}`),
  fc.constantFrom('Bearer', 'Basic x', 'bearer', 'Bearer undefined', 'Bearer null'),
)

holds('any Authorization that is no live credential is 401, on every method and path', credential, async (text) => {
  for (const [method, path] of [
    ['GET', '/v1/desktops'],
    ['POST', `/v1/desktops/${newId()}/wake`],
    ['GET', '/v1/no/such'],
    ['GET', '/admin/v1/orgs'],
  ]) {
    const answer = await stack.api(method!, path!, { key: null, headers: { authorization: text } })
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([401, 'Bearer'])
  }
})

const create = (key: string, more: ApiWish = {}) =>
  stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, ...more, headers: { 'idempotency-key': key } })

holds(
  'any ASCII of 1 to 255 characters is an Idempotency-Key: once a desktop, then the same one',
  ascii,
  async (key) => {
    const [made, again] = [await create(key), await create(key)]
    expect([200, 201]).toContain(made.status)
    expect([again.status, again.headers['idempotency-replayed'], again.json.id]).toEqual([200, 'true', made.json.id])
  },
)

const nonAscii = fc
  .tuple(latin(20), fc.integer({ min: 0xa0, max: 0xff }), latin(20))
  .map(([before, code, after]) => `x${before}${String.fromCharCode(code)}${after}x`)
const tooLong = ascii.map((key) => `x${key}`.padEnd(256, 'x'))

holds('any other key is 400 and makes nothing', fc.oneof(nonAscii, tooLong), async (key) => {
  const { status, json } = await create(key)
  expect([status, json.field]).toEqual([400, 'Idempotency-Key'])
})

const harmless = fc.constantFrom(
  'Accept',
  'Content-Type',
  'Accept-Language',
  'Accept-Encoding',
  'User-Agent',
  'Cookie',
  'Origin',
  'Referer',
  'X-Forwarded-For',
  'X-Forwarded-Host',
  'X-HTTP-Method-Override',
  'X-Request-Id',
  'Range',
)

holds(
  'no other header changes the answer',
  fc.array(fc.tuple(harmless, latin(80)), { maxLength: 6 }),
  async (given) => {
    const headers = Object.fromEntries(given)
    const made = await stack.api('POST', '/v1/desktops', { body: '{"tier":"small"}', headers })
    expect(made.status).toBe(201)
    const read = await stack.api('GET', `/v1/desktops/${made.json.id}`, { headers })
    expect([read.status, read.json]).toEqual([200, made.json])
  },
)

const paths = (id: string): [method: string, path: string][] => [
  ['GET', `/v1/desktops/${id}`],
  ['GET', `/v1/operations/${id}`],
  ['GET', `/v1/desktops/${id}/operations`],
  ['POST', `/v1/desktops/${id}/destroy`],
  ['PUT', `/v1/desktops/${id}/files/a`],
  ['GET', `/v1/desktops/${id}/screenshot`],
]
const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const nearlyId = fc
  .tuple(fc.uuid(), fc.nat(35), fc.string({ maxLength: 3 }))
  .map(([id, at, other]) => id.slice(0, at) + other + id.slice(at + 1))
const noId = fc
  .oneof(fc.string({ unit: 'grapheme', minLength: 1 }), nearlyId)
  .filter((text) => !isUuid.test(text) && !/^\.{1,2}$/.test(text))

holds('any id that is no UUID is 400, and says so', noId, async (text) => {
  for (const [method, path] of paths(encodeURIComponent(text.toWellFormed()))) {
    const { status, json } = await stack.api(method, path)
    expect([path, status, json.field]).toEqual([path, 400, 'id'])
  }
})

holds(
  'any UUID is taken in either case, and is the one 404 where nothing has it',
  fc.tuple(fc.uuid(), fc.boolean()),
  async ([id, upper]) => {
    const texts = []
    for (const [method, path] of paths(upper ? id.toUpperCase() : id)) {
      const { status, text } = await stack.api(method, path)
      expect([path, status]).toEqual([path, 404])
      texts.push(text)
    }
    expect(new Set(texts).size).toBe(1)
  },
)

/** The contract's word on a body of create: the first field that is wrong, or none. */
function wrongInCreate(body: unknown): boolean {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return true
  const { tier, billing_mode, image_version, idle_timeout_secs, ...unknown } = body as Record<string, unknown>
  const omitted = (value: unknown) => value === undefined || value === null
  return (
    Object.keys(unknown).length > 0 ||
    !['small', 'default', 'large'].includes(tier as string) ||
    !(omitted(billing_mode) || ['monthly', 'hourly', ''].includes(billing_mode as string)) ||
    !(omitted(image_version) || image_version === 'mini') ||
    !(omitted(idle_timeout_secs) || (Number.isSafeInteger(idle_timeout_secs) && (idle_timeout_secs as number) >= 0))
  )
}

const anything = fc.jsonValue({ maxDepth: 2 })
const mostly = <T>(good: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 4, arbitrary: good as fc.Arbitrary<unknown> }, { weight: 1, arbitrary: anything })
const createBody = fc.oneof(
  anything,
  fc.record(
    {
      tier: mostly(fc.constantFrom('small', 'default', 'large')),
      billing_mode: mostly(fc.constantFrom('monthly', 'hourly', '', null)),
      image_version: mostly(fc.oneof(fc.constantFrom(null, 'mini'), fc.string({ unit: 'binary', maxLength: 140 }))),
      idle_timeout_secs: mostly(
        fc.oneof(fc.constant(null), fc.nat(), fc.double({ noNaN: true, noDefaultInfinity: true })),
      ),
    },
    { requiredKeys: ['tier'] },
  ),
)

holds(
  'any body of create makes a desktop or is 400 with the name of the field',
  createBody,
  async (body) => {
    const { status, json } = await stack.api('POST', '/v1/desktops', { body: JSON.stringify(body) })
    expect(status).toBe(wrongInCreate(body) ? 400 : 201)
    if (status === 400) expect(json.field).toEqual(expect.any(String))
  },
  100,
)

/** On these an unknown field is refused. */
const mutation = fc.oneof(
  anything,
  fc.record({ expected_generation: mostly(fc.constantFrom(null, 0, 1, 7)) }, { requiredKeys: [] }),
  fc.dictionary(fc.string(), anything, { maxKeys: 2 }),
)

holds(
  'any body of destroy is 202, 409 where the generation is another, or 400 with the name of the field',
  mutation,
  async (body) => {
    const { id } = await stack.desktop()
    const { status, json } = await stack.api('POST', `/v1/desktops/${id}/destroy`, { body: JSON.stringify(body) })
    const given = (body ?? undefined) as Record<string, unknown> | undefined
    const isObject = typeof given === 'object' && !Array.isArray(given)
    const unknown = isObject && Object.keys(given).some((name) => name !== 'expected_generation')
    const expected =
      isObject && Object.hasOwn(given, 'expected_generation') ? (given.expected_generation ?? null) : null
    const isNumber = expected === null || (Number.isSafeInteger(expected) && (expected as number) >= 0)
    const should = !isObject || unknown || !isNumber ? 400 : expected === null || expected === 0 ? 202 : 409
    expect(status).toBe(should)
    if (status === 400) expect(typeof json.field).toBe('string')
  },
)

holds('any bytes as a body are answered, and never with 500', fc.uint8Array({ maxLength: 300 }), async (bytes) => {
  const answers = [
    await stack.api('POST', '/v1/desktops', { body: bytes }),
    await stack.api('POST', `/v1/desktops/${newId()}/exec`, { body: bytes }),
    await stack.api('POST', `/v1/desktops/${newId()}/stream`, { body: bytes }),
    await send(`${stack.url}/agent/v1/enrol`, 'POST', { body: bytes }),
  ]
  expect(answers.map(({ status }) => status).filter((status) => ![400, 201].includes(status))).toEqual([])
})
