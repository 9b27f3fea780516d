// Guarantee: SSH begins only once both ends know that the other listens, whatever is left on the line from before.
import { type Duplex, duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { shakeHands } from './handshake.ts'

/** The guest's end, in a few lines: answers questions, and says what came after GO. */
function guest(line: Duplex, options: { deafTo?: number; slowMs?: number } = {}) {
  let [text, nonce, asked] = ['', '', 0]
  const begun = Promise.withResolvers<string>()
  line.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1')
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
      const [word, said = ''] = text.slice(0, end).split(' ')
      text = text.slice(end + 1)
      if (word === 'RST' && ++asked > (options.deafTo ?? 0)) {
        setTimeout(() => {
          nonce = said
          line.write(`RDY ${nonce}\n`)
        }, options.slowMs ?? 0)
      }
      if (word === 'GO' && said === nonce) begun.resolve(text)
    }
  })
  return { begun: begun.promise, asked: () => asked }
}

test('bytes of the connection before are passed over, and SSH’s own first bytes are not', async () => {
  const [host, far] = duplexPair()
  far.write('SSH-2.0-OpenSSH\r\n\x00\x01garbage RDY 0000\nHELLO\nRDY ')
  const { begun } = guest(far)
  await shakeHands(host, 5_000)
  expect(await begun).toBe('')
  far.write('SSH-2.0-new\r\n')
  const heard = Promise.withResolvers<string>()
  host.once('data', (bytes: Buffer) => heard.resolve(bytes.toString()))
  host.resume()
  expect(await heard.promise).toBe('SSH-2.0-new\r\n')
})

test('a guest that does not listen yet is asked again, and freed with enough bytes to fill any packet', async () => {
  const [host, far] = duplexPair()
  let bytes = 0
  far.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  const { begun } = guest(far, { deafTo: 5 })
  await shakeHands(host, 5_000)
  await begun
  expect(bytes).toBeGreaterThan(40_960)
})

test('a guest that answers more slowly than it is asked is asked less often, until it is heard', async () => {
  const [host, far] = duplexPair()
  const { begun } = guest(far, { slowMs: 300 })
  await shakeHands(host, 10_000)
  expect(await begun).toBe('')
})

test('a line that is silent or closes is an unavailable guest', async () => {
  const [silent] = duplexPair()
  await expect(shakeHands(silent, 200)).rejects.toMatchObject({ code: 'guest_unavailable' })
  const [closing] = duplexPair()
  const shaking = shakeHands(closing, 5_000)
  closing.destroy()
  await expect(shaking).rejects.toMatchObject({ code: 'guest_unavailable' })
})
