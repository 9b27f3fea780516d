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
