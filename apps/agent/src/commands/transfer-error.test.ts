// Guarantee: a transfer that ends early has the reason for which it ended, even if its streams got that reason twice.
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { unlessAborted } from '../mechanics/deadlines.ts'
import { transferError } from './transfer-error.ts'

test('a read whose desktop goes away is refused for that reason, which both the guest and the stream are told', async () => {
  const over = new AbortController()
  const reason = new Refusal('guest_unavailable', 'the desktop went to sleep')
  async function* silentGuest() {
    yield Buffer.alloc(1_000)
    setImmediate(() => over.abort(reason))
    await unlessAborted(new Promise<never>(() => undefined), over.signal)
  }
  const channel = new PassThrough().resume()
  const ended: unknown = await pipeline(silentGuest, channel, { signal: over.signal }).catch((error: unknown) => error)
  expect(ended).toBeInstanceOf(AggregateError)
  expect(transferError(ended)).toBe(reason)
})
