// Guarantee: whatever a guest sends in place of answers, it takes no more memory here than the answers may have bytes.
import { usedBytes } from '@dormouse/process/testing'
import { expect, test } from 'vitest'
import { CallAnswers, callRequest, streamScript } from './calls.ts'

const maxBytes = 2 * 1024 * 1024 + 64 * 1024
const chunkPieces = 8 * 1024
const refused = expect.objectContaining({ code: 'guest_unavailable', message: expect.stringContaining('not valid') })

test('answers in pieces of one byte take the memory of their bytes, and are refused above the limit', () => {
  const answers = new CallAnswers()
  const tags = [1, 2]
  for (const tag of tags) answers.expect(tag)
  const before = usedBytes()
  for (const tag of tags) {
    const pieces = Buffer.from(`${tag} 1\nX`.repeat(chunkPieces))
    for (let sent = 0; sent < maxBytes; sent += chunkPieces) expect(answers.add(pieces)).toEqual([])
  }
  expect(usedBytes() - before).toBeLessThan(64 * 1024 * 1024)
  expect(() => answers.add(Buffer.from('1 1\nX'))).toThrow(refused)
  expect(answers.add(Buffer.from('2 0\n'))).toEqual([{ tag: 2, answer: Buffer.alloc(maxBytes, 'X'), isPart: false }])
})

test('a NUL in an argument is refused: behind it would be another argument', () => {
  const nul = expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining('NUL') })
  expect(() => callRequest(1, { words: ['execs', 'get', 'a\0b'], timeoutSecs: 1 })).toThrow(nul)
  expect(() => streamScript(['file.read', '/a\0b'], 'nonce')).toThrow(nul)
})
