import { expect, test } from 'vitest'
import { parseInTurn } from './json-bodies.ts'

test('large bodies are parsed one at a turn of the event loop, and small ones at once', async () => {
  let turn = 0
  let counting = true
  const count = () => {
    turn++
    if (counting) setImmediate(count)
  }
  setImmediate(count)
  const large = Buffer.from(`[${'0,'.repeat(64 * 1024)}0]`)
  const parsedAt = (body: Buffer) => parseInTurn(body).then(() => turn)
  const turns = await Promise.all([large, large, large, large].map(parsedAt))
  expect(new Set(turns).size).toBe(4)
  const before = turn
  expect(await parsedAt(Buffer.from('{"tier":"small"}'))).toBe(before)
  counting = false
})

test.each([
  ['{"a":"\\ud800"}', 'a'],
  ['{"a":[{"b":"x\\uDFFFy"}]}', 'a.0.b'],
  ['{"a":"\\udc00\\ud800"}', 'a'],
  ['"\\uD800"', 'body'],
  ['{"\\ud83d":1}', '\u{fffd}'],
])('half of a character is refused: %s', async (body, field) => {
  await expect(parseInTurn(Buffer.from(body))).rejects.toMatchObject({ code: 'invalid_request', extra: { field } })
})

test.each(['{"a":"\\ud83d\\ude00"}', '{"a":"\\\\ud800"}', '{"a":"\u{1f600}"}'])(
  'whole characters are taken: %s',
  async (body) => {
    expect(await parseInTurn(Buffer.from(body))).toEqual(JSON.parse(body))
  },
)

test('a body is looked through however deep it is', async () => {
  const nested = (text: string) => Buffer.from(`${'['.repeat(100_000)}"${text}"${']'.repeat(100_000)}`)
  await expect(parseInTurn(nested('\\ud83d\\ude00'))).resolves.toHaveLength(1)
  await expect(parseInTurn(nested('\\ud83d'))).rejects.toMatchObject({ code: 'invalid_request' })
})
