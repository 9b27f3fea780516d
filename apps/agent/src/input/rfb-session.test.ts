// Guarantee: what a screen sends about itself is bounded before it is read.
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

/** A screen that greets with a size. */
function screenOf(width: number, height: number) {
  const [screen, host] = duplexPair()
  const init = Buffer.alloc(initBytes)
  init.writeUInt16BE(width, 0)
  init.writeUInt16BE(height, 2)
  screen.write(Buffer.concat([Buffer.from('RFB 003.008\n'), Buffer.from([1, 1]), Buffer.alloc(4), init]))
  return { screen, host }
}

test.each([
  [16_384, 16_384],
  [65_535, 65_535],
  [8_000, 4_000],
])('a screen of %d × %d pixels is refused before there is space for it', async (width, height) => {
  await expect(RfbSession.open(screenOf(width, height).host)).rejects.toMatchObject({ code: 'screen_too_large' })
})

test('a picture that may not be kept is refused before there is space for it', async () => {
  const asked: number[] = []
  const mayKeep = (bytes: number) => asked.push(bytes) > 1
  await expect(RfbSession.open(screenOf(640, 400).host, mayKeep)).rejects.toMatchObject({ code: 'pictures_busy' })
  expect(asked).toEqual([640 * 400 * 4])
})
