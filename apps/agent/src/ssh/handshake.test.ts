// Guarantee: SSH starts only once both ends know that the other listens, whatever is left on the port from before.
import { type Duplex, duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { shakeHands } from './handshake.ts'

/** The guest's end, in a few lines: answers questions, and returns what came after GO. */
function guest(port: Duplex, options: { deafTo?: number; slowMs?: number } = {}) {
  let [text, nonce, asked] = ['', '', 0]
  const started = Promise.withResolvers<string>()
  port.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1')
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
      const [verb, argument = ''] = text.slice(0, end).split(' ')
      text = text.slice(end + 1)
      if (verb === 'RST' && ++asked > (options.deafTo ?? 0)) {
        setTimeout(() => {
          nonce = argument
          port.write(`RDY ${nonce}\n`)
        }, options.slowMs ?? 0)
      }
      if (verb === 'GO' && argument === nonce) started.resolve(text)
    }
  })
  return { started: started.promise, asked: () => asked }
}

test('bytes of the previous connection are skipped, SSH’s own first bytes are not', async () => {
  const [host, far] = duplexPair()
  far.write('SSH-2.0-OpenSSH\r\n\x00\x01garbage RDY 0000\nHELLO\nRDY ')
  const { started } = guest(far)
  await shakeHands(host, 5_000)
  expect(await started).toBe('')
  far.write('SSH-2.0-new\r\n')
  const received = Promise.withResolvers<string>()
  host.once('data', (bytes: Buffer) => received.resolve(bytes.toString()))
  host.resume()
  expect(await received.promise).toBe('SSH-2.0-new\r\n')
})

test('a guest that does not listen yet is asked again, and gets enough bytes to fill any packet', async () => {
  const [host, far] = duplexPair()
  let bytes = 0
  far.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  const { started } = guest(far, { deafTo: 5 })
  await shakeHands(host, 5_000)
  await started
  expect(bytes).toBeGreaterThan(40_960)
})

test('a guest that answers more slowly than it is asked is asked less often, until it is heard', async () => {
  const [host, far] = duplexPair()
  const { started } = guest(far, { slowMs: 300 })
  await shakeHands(host, 10_000)
  expect(await started).toBe('')
})

test('a port that is silent or closes is an unavailable guest', async () => {
  const [silent] = duplexPair()
  await expect(shakeHands(silent, 200)).rejects.toMatchObject({ code: 'guest_unavailable' })
  const [closing] = duplexPair()
  const shaking = shakeHands(closing, 5_000)
  closing.destroy()
  await expect(shaking).rejects.toMatchObject({ code: 'guest_unavailable' })
})
