// Guarantee: many screens are shown at once, each its own, and a viewer that never reads costs a window, not the service.
import type { StreamClaim, StreamJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { RfbClient } from './parts/rfb-client.ts'

async function connect(stack: Stack, id: string, claim: StreamClaim): Promise<RfbClient> {
  const { json } = await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim } })
  return RfbClient.connect((json as StreamJson).websocket_url)
}

test('fifty viewers of fifty desktops on one host each see their own', async () => {
  await using stack = await Stack.start()
  const desktops = await Promise.all(Array.from({ length: 50 }, () => stack.desktop('awake')))
  const viewers = await Promise.all(desktops.map(({ id }) => connect(stack, id, 'control')))
  const blank = await viewers[0]!.frame()
  await Promise.all(viewers.map(async (viewer) => expect((await viewer.frame()).equals(blank)).toBe(true)))
  for (const [i, viewer] of viewers.entries()) viewer.type(0x20 + i)
  const pictures = await Promise.all(viewers.map((viewer) => viewer.frame()))
  // The low byte of a key is the red of the square that it paints.
  expect(pictures.map((picture) => picture[2])).toEqual(viewers.map((_, i) => 0x20 + i))
  for (const viewer of viewers) viewer.close()
  await Promise.all(viewers.map(({ closed }) => closed))
})

test('a viewer that asks for a thousand frames and never reads is held at a window, and others see on', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const deaf = await connect(stack, id, 'view')
  const other = await connect(stack, id, 'control')
  await deaf.frame()
  const before = process.memoryUsage().arrayBuffers
  deaf.socket.pause()
  const frameBytes = deaf.width * deaf.height * 4
  for (let i = 0; i < 1_000; i++) deaf.ask()
  for (let i = 0; i < 50; i++) await other.frame()
  const grown = process.memoryUsage().arrayBuffers - before
  // All of them would be 256 MB; the windows on the way and the network's own buffers are a few.
  expect(1_000 * frameBytes).toBeGreaterThan(250e6)
  expect(grown).toBeLessThan(100e6)
  other.type(0x61)
  await other.frame()
  deaf.socket.terminate()
  other.close()
})
