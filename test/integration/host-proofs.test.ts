// Guarantee: whoever opens a link holds the host's key at that moment. Nothing that was heard on the way opens another.
import { linkSubprotocols, newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { answered, byToken, challenged, enrol, linkOf } from './parts/host-by-hand.ts'

test('a proof opens the link it was asked for and no other, and only its own host’s', async () => {
  await using stack = await Stack.start()
  const [host, other] = [await enrol(stack), await enrol(stack, 'other')]
  const prove = async (sign: (nonce: string) => string, as = host.id) => {
    const at = await challenged(stack)
    return answered(at, as, sign(at.nonce))
  }
  expect(await prove(host.signature)).toBe('accepted')
  const [one, two] = [await challenged(stack), await challenged(stack)]
  expect(await answered(two, host.id, host.signature(one.nonce))).toBe(4401)
  expect(await answered(one, host.id, host.signature(one.nonce))).toBe('accepted')
  expect(await prove(other.signature)).toBe(4401)
  expect(await prove(host.signature, other.id)).toBe(4401)
  expect(await prove(host.signature, newId())).toBe(4401)
  expect(await prove((nonce) => host.signature(nonce, other.id))).toBe(4401)
  expect(await prove((nonce) => host.signature(nonce, host.id, newId()))).toBe(4401)
  expect(await prove(() => 'no signature')).toBe(4400)
})

test('a token opens one link within minutes, and none once its host has signed a challenge', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const [host, other] = [await enrol(stack), await enrol(stack, 'other')]
  const provesBy = async () => (await stack.replica.parts.hosts.list()).find(({ id }) => id === host.id)?.proves_by
  const status = async (...token: Parameters<typeof host.tokenOf>) => byToken(stack.url, await host.tokenOf(...token))
  for (const ageSecs of [600, 3_600, 10_000, -600, -3_600])
    expect([ageSecs, await status(ageSecs)]).toEqual([ageSecs, 401])
  expect(await status(0, { tokenId: '' })).toBe(401)
  expect(await status(0, { as: other.id })).toBe(401)
  expect(await status(0, { at: newId() })).toBe(401)
  expect(await provesBy()).toBeNull()
  const token = await host.tokenOf(60)
  expect(await byToken(stack.url, token)).toBe(101)
  for (const { url } of stack.replicas) expect(await byToken(url, token)).toBe(401)
  expect(await status()).toBe(101)
  expect(await provesBy()).toBe('token')
  expect(stack.chronicle.find(/authenticated with a token.*upgrade its agent/).length).toBe(2)
  const at = await challenged(stack)
  expect(await answered(at, host.id, host.signature(at.nonce))).toBe('accepted')
  expect(await status()).toBe(401)
  expect(await provesBy()).toBe('challenge')
  // As many as a host may use within half a day.
  const others = async () => byToken(stack.url, await other.tokenOf())
  expect(await others()).toBe(101)
  await stack.database.rows(
    `insert into host_tokens_used (host_id, token_id) select '${other.id}', gen_random_uuid() from generate_series(2, 20000)`,
  )
  expect(await others()).toBe(401)
})

test('a host that enrolled under the release before is let in by its own clock, once that is known', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const host = await enrol(stack)
  // As the migration leaves those that were there.
  await stack.database.rows('update hosts set token_skew_secs = null')
  const status = async (ageSecs: number) => byToken(stack.url, await host.tokenOf(ageSecs))
  expect(await status(7_200)).toBe(101)
  expect(await status(7_230)).toBe(101)
  expect(await status(3_600)).toBe(401)
  expect(await status(-7_200)).toBe(401)
  expect(await status(0)).toBe(101)
  expect(await status(7_200)).toBe(401)
})

test('strangers who say nothing keep no host out, however many they are', async () => {
  await using stack = await Stack.start()
  await stack.killAgent()
  const strangers = Array.from({ length: 300 }, () => new WebSocket(linkOf(stack.url), [linkSubprotocols.proof]))
  const codes: number[] = []
  for (const stranger of strangers) stranger.on('error', () => undefined).on('close', (code) => codes.push(code))
  // Cut, and not asked to leave after a while.
  await waitFor('the oldest to give way', () => codes.filter((code) => code === 1006).length === 44)
  await stack.restartAgent()
  for (const stranger of strangers) stranger.terminate()
})

test('a channel is opened by its name alone, once', async () => {
  await using stack = await Stack.start()
  const { channels } = stack.replica.parts
  const awaited = channels.expect(stack.host.id)
  const dial = (name: string) =>
    stack.api('GET', `/agent/v1/channels/${name}`, {
      key: null,
      headers: {
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': Buffer.alloc(16).toString('base64'),
      },
    })
  expect((await dial('no-such-name')).status).toBe(404)
  const socket = new WebSocket(`${stack.url.replace(/^http/, 'ws')}/agent/v1/channels/${awaited.token}`)
  const channel = await awaited.channel
  expect((await dial(awaited.token)).status).toBe(404)
  channel.destroy()
  socket.terminate()
})
