// Guarantee: what a screen says of itself is bounded before it is read.
import { duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { RfbSession } from './rfb-session.ts'

const [nameBytesAt, initBytes] = [20, 24]

test('a screen whose name is too long is refused', async () => {
  const [screen, host] = duplexPair()
  const init = Buffer.alloc(initBytes)
  init.writeUInt32BE(2 ** 30, nameBytesAt)
  // Its version, its one kind of security, and that it agrees.
  screen.write(Buffer.concat([Buffer.from('RFB 003.008\n'), Buffer.from([1, 1]), Buffer.alloc(4), init]))
  await expect(RfbSession.open(host)).rejects.toThrow('the screen’s name is too long')
})
