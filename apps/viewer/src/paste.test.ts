// Guarantee: what is pasted reaches the screen to the letter, and never in the place of what was pasted after it.
import { inflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { type ClipboardMessages, pasteAsWritten, whenAble } from './paste.ts'

function clipboard() {
  const sent: Uint8Array[] = []
  const messages: ClipboardMessages = {
    extendedClipboardProvide: () => undefined,
    extendedClipboardCaps: () => undefined,
    clientCutText: (_socket, data) => void sent.push(data),
  }
  pasteAsWritten(messages)
  return {
    sent,
    messages,
    asked: (text: string) => messages.extendedClipboardProvide({}, [1], [text]),
  }
}

function textOf(message: Uint8Array): string {
  expect([...message.subarray(0, 4)]).toEqual([0x10, 0, 0, 1])
  const plain = inflateSync(message.subarray(4))
  expect(plain.readUInt32BE(0)).toBe(plain.length - 4)
  return plain.subarray(4).toString()
}

test.each([
  ['nothing', ''],
  ['lines and signs', 'Grüße, 你好\nand a second line\r\nand a third'],
  ['what fills a block to the last byte', 'x'.repeat(65_535 - 4)],
  ['many blocks', '你好'.repeat(60_000)],
])('%s: as it was written', (_what, text) => {
  const { sent, asked } = clipboard()
  asked(text)
  expect(sent.map(textOf)).toEqual([text])
})

test('an answer is given before anything else can be said, however long the text', () => {
  const { sent, asked } = clipboard()
  asked('long '.repeat(100_000))
  expect(sent).toHaveLength(1)
  asked('short')
  expect(sent.map((message) => textOf(message).slice(0, 5))).toEqual(['long ', 'short'])
})

test('it is said when a screen has told what it takes, after that was answered', () => {
  const { messages } = clipboard()
  const order: string[] = []
  messages.extendedClipboardCaps = () => void order.push('answered')
  whenAble(messages, () => order.push('able'))
  messages.extendedClipboardCaps({}, [], {})
  expect(order).toEqual(['answered', 'able'])
})
