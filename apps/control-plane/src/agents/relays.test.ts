// Guarantee: a relay joins the channels of two hosts, whole and with their ends, for one operation. Each token opens one channel
// once. A slow reader stops the writer. A relay that is cut or silent closes, and one above a limit is refused.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { newId } from '@dormouse/contract'
import { type Channel, dialChannel } from '@dormouse/link'
import { listenOnLoopback, openDoors } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { expect, test, vi } from 'vitest'
import { Channels } from './channels.ts'
import { type Relay, Relays, type RelayTimes } from './relays.ts'

const log = createLog({ name: 'relays', level: 'silent' })
const fill = (bytes: number) => Buffer.alloc(bytes, 'x')
const MiB = 1024 * 1024
const idle = new AbortController().signal

async function stage(times?: RelayTimes) {
  const server = createServer()
  const upgrades = openDoors(server)
  const channels = new Channels()
  channels.attach(upgrades, () => undefined)
  const port = await listenOnLoopback(server)
  const relays = new Relays({ channels, mibPerSec: 10_000, log, ...(times && { times }) })
  const dial = (token: string) => dialChannel({ url: `ws://127.0.0.1:${port}/agent/v1/channels/${token}` })
  const side = (relay: Relay, host: string) => Promise.all(relay.expect(host).channels.map(dial))
  const between = (hostIds: readonly [string, string] = ['old', 'new'], operationId = newId(), signal = idle) =>
    relays.between({ operationId, hostIds, signal })
  const join = async (operationId?: string, signal?: AbortSignal) => {
    const relay = between(['old', 'new'], operationId, signal)
    return { relay, theirs: await side(relay, 'new'), ours: await side(relay, 'old') }
  }
  const dispose = async () => {
    relays.closeAll()
    await upgrades.close()
    server.close()
    await once(server, 'close')
  }
  return { channels, relays, dial, side, between, join, [Symbol.asyncDispose]: dispose }
}

const waitFor = (look: () => boolean) => vi.waitUntil(look, { timeout: 60_000, interval: 20 })
const areClosed = (...channels: Channel[]) => waitFor(() => channels.every(({ destroyed }) => destroyed))

test('channels of the same position are joined, whole and with each half close', async () => {
  await using on = await stage()
  const { ours, theirs } = await on.join()
  ours[1]!.end(fill(5 * MiB))
  expect((await buffer(theirs[1]!)).equals(fill(5 * MiB))).toBe(true)
  theirs[1]!.end('thanks')
  expect(String(await buffer(ours[1]!))).toBe('thanks')
  theirs[2]!.write('another')
  expect(String((await once(ours[2]!, 'data'))[0])).toBe('another')
  expect([on.relays.open, on.relays.bytes]).toEqual([1, 5 * MiB + 'thanksanother'.length])
})

test('a token opens one channel once, and nothing else does', async () => {
  await using on = await stage()
  const [token] = on.between().expect('new').channels
  await on.dial(token!)
  for (const bad of [token!, 'A'.repeat(32)]) await expect(on.dial(bad)).rejects.toMatchObject({ status: 404 })
})

test('a slow reader stops the writer, and little waits in between', async () => {
  await using on = await stage()
  const { ours, theirs } = await on.join()
  let sent = 0
  const send = () => ours[0]!.write(fill(MiB), () => ++sent < 64 && send())
  send()
  // Both windows are full then.
  let before = 0
  await waitFor(() => {
    const same = sent > 0 && sent === before && theirs[0]!.readableLength >= MiB
    before = sent
    return same
  })
  expect(sent).toBeLessThan(8)
  let read = 0
  theirs[0]!.on('data', (chunk: Buffer) => {
    read += chunk.length
  })
  await waitFor(() => read === 64 * MiB)
})

test('a channel that is cut closes all the others, and the relay', async () => {
  await using on = await stage()
  const { ours, theirs } = await on.join()
  ours[0]!.destroy(new Error('the agent died'))
  await areClosed(...ours, ...theirs)
  await waitFor(() => on.relays.open === 0)
  expect(on.channels.open).toBe(0)
})

test('a relay of a host that is removed closes', async () => {
  await using on = await stage()
  const { ours, theirs } = await on.join()
  on.channels.disconnect('new')
  await areClosed(...ours, ...theirs)
})

test('a relay whose other host does not dial closes', async () => {
  await using on = await stage({ dialMs: 200, silentMs: 60_000 })
  const relay = on.between()
  relay.expect('old')
  // On a busy machine it closes before they are open.
  await areClosed(...(await on.side(relay, 'new').catch(() => [])))
  await waitFor(() => on.relays.open === 0)
})

test('a relay of silent hosts closes', async () => {
  await using on = await stage({ dialMs: 60_000, silentMs: 200 })
  // On a busy machine it closes before they are open.
  const { ours, theirs } = await on.join().catch(() => ({ ours: [], theirs: [] }))
  await areClosed(...ours, ...theirs)
  await waitFor(() => on.relays.open === 0)
})

test('a relay whose move has failed opens nothing more', async () => {
  await using on = await stage()
  const relay = on.between()
  const [token] = relay.expect('new').channels
  relay.close()
  await expect(on.dial(token!)).rejects.toMatchObject({ status: 404 })
  expect(() => relay.expect('old')).toThrow('the move has failed')
})

test('a relay closes with its operation on this replica', async () => {
  await using on = await stage()
  const operation = new AbortController()
  const { ours, theirs } = await on.join('o1', operation.signal)
  operation.abort()
  await areClosed(...ours, ...theirs)
  expect(on.relays.open).toBe(0)
  expect(() => on.between(['old', 'new'], 'o1', operation.signal)).toThrow()
})

test('a relay closes once its operation needs it no more, or opens another one', async () => {
  await using on = await stage()
  const [first, other] = [await on.join('o1'), await on.join('o2')]
  const second = await on.join('o1')
  await areClosed(...first.ours, ...first.theirs)
  on.relays.close('o1')
  await areClosed(...second.ours, ...second.theirs)
  expect([on.relays.open, other.ours.some(({ destroyed }) => destroyed)]).toEqual([1, false])
})

test('one host has two relays, and a replica eight', async () => {
  await using on = await stage()
  const full = { code: 'too_many_moves' }
  const [first] = [on.between(['a', 'b']), on.between(['a', 'c'])]
  expect(() => on.between(['d', 'a'])).toThrow(expect.objectContaining(full))
  first!.close()
  on.between(['d', 'a'])
  for (let more = 0; more < 6; more++) on.between([`e${more}`, `f${more}`])
  expect(() => on.between(['g', 'h'])).toThrow(expect.objectContaining(full))
})
