// Guarantee: whoever is asked can type a line, nothing, or leave; none of these is a fault of the program.
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { answerTo } from './question.ts'

function asked() {
  const [input, output, controller] = [new PassThrough(), new PassThrough(), new AbortController()]
  const onInterrupt = () => controller.abort(new Error('interrupted'))
  output.resume()
  return { answer: answerTo('Sure? ', { input, output, signal: controller.signal, onInterrupt }), input }
}

test.each([
  ['a line', 'hv-3\r', 'hv-3'],
  ['Ctrl-D', '\x04', ''],
])('%s is an answer', async (_what, keys, expected) => {
  const { answer, input } = asked()
  input.write(keys)
  expect(await answer).toBe(expected)
})

test('Ctrl-C ends the command as any interrupt does', async () => {
  const { answer, input } = asked()
  input.write('\x03')
  await expect(answer).rejects.toThrow('interrupted')
})
