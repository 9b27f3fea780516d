// Guarantee: whoever opens a link holds the host's key at that moment. Nothing that was heard on the way opens another.
import { createPrivateKey, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { linkProofText, linkSubprotocol, newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { answered, challenged, enrol, linkOf } from './parts/host-by-hand.ts'

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

test('a host gets a new key while its desktop runs, and the old key opens nothing, also after a cut in between', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const identity = () => JSON.parse(readFileSync(join(stack.host.folder, 'identity.json'), 'utf8'))
  const isAccepted = async ({ key, hostId, installationId }: ReturnType<typeof identity>) => {
    const at = await challenged(stack)
    const text = Buffer.from(linkProofText(installationId, hostId, at.nonce))
    return answered(at, hostId, sign(null, text, createPrivateKey({ key, format: 'jwk' })).toString('base64url'))
  }
  const [old, operatorKey] = [identity(), await stack.replica.parts.principals.createOperatorKey('ops')]
  const rotate = () => stack.api('POST', `/admin/v1/hosts/${stack.host.name}/rotate-key`, { key: operatorKey })
  // Nothing is stored: the host has two keys, and goes on with either.
  await stack.database.rows('alter table audit_log add constraint nobody check (false) not valid')
  stack.chronicle.foresee(/^a request failed$/)
  expect((await rotate()).status).toBe(500)
  const [{ nextKey }, unused] = [identity(), await stack.database.rows('alter table audit_log drop constraint nobody')]
  expect([nextKey.x === old.key.x, unused]).toEqual([false, []])
  await stack.restartAgent()
  expect((await rotate()).json).toEqual({ host_id: stack.host.id })
  await waitFor('the host to use its new key', () => identity().key.x === nextKey.x)
  expect(identity()).toEqual({ ...old, key: nextKey })
  await stack.linked(stack.host)
  expect(await isAccepted(old)).toBe(4401)
  expect((await stack.see(id)).state).toBe('awake')
  expect(await isAccepted(identity())).toBe('accepted')
})

test('strangers who say nothing keep no host out, however many they are', async () => {
  await using stack = await Stack.start()
  await stack.killAgent()
  const strangers = Array.from({ length: 300 }, () => new WebSocket(linkOf(stack.url), [linkSubprotocol]))
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
