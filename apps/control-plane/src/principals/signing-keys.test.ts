// Guarantee: the issuer gets one request at a time, and seldom, and its silence removes no known key.
import { setTimeout as sleep } from 'node:timers/promises'
import { createLog } from '@dormouse/process'
import { type CryptoKey, exportJWK, generateKeyPair, type JSONWebKeySet } from 'jose'
import { expect, test } from 'vitest'
import { SigningKeys, type SigningKeysOptions } from './signing-keys.ts'

const token = { payload: '', signature: '' }

/** An issuer whose keys, by their names, a test may change; undefined is silence. */
async function issuer(options: Partial<SigningKeysOptions> = {}) {
  const { publicKey } = await generateKeyPair('ES256')
  const jwk = await exportJWK(publicKey)
  const state = { kids: ['a'] as string[] | undefined, asked: 0, atOnce: 0, mostAtOnce: 0 }
  const fetch = async (): Promise<JSONWebKeySet> => {
    state.asked++
    state.mostAtOnce = Math.max(state.mostAtOnce, ++state.atOnce)
    await sleep(1)
    state.atOnce--
    if (!state.kids) throw new Error('silence')
    return { keys: state.kids.map((kid) => ({ ...jwk, kid, alg: 'ES256' })) }
  }
  const keys = new SigningKeys({ fetch, log: createLog({ name: 'test', level: 'silent' }), paceMs: 20, ...options })
  const find = (kid: string): Promise<CryptoKey> => keys.find({ alg: 'ES256', kid }, token)
  return { state, find }
}

test('many tokens at once are one question, and a known key is none', async () => {
  const { state, find } = await issuer()
  await Promise.all(Array.from({ length: 50 }, () => find('a')))
  await find('a')
  expect(state.asked).toBe(1)
})

test('unknown keys never ask twice at once, and a new one is found though others made the issuer busy', async () => {
  const { state, find } = await issuer()
  await find('a')
  const garbage = Array.from({ length: 50 }, (_, i) =>
    find(`garbage-${i}`).catch((error: { code: string }) => error.code),
  )
  state.kids = ['a', 'b']
  await expect(find('b')).resolves.toBeDefined()
  expect(new Set(await Promise.all(garbage))).toEqual(new Set(['ERR_JWKS_NO_MATCHING_KEY']))
  expect([state.asked, state.mostAtOnce]).toEqual([2, 1])
})

test('where the issuer was silent a moment ago nobody waits for it again', async () => {
  const { state, find } = await issuer({ paceMs: 60_000 })
  state.kids = undefined
  for (let i = 0; i < 3; i++) await expect(find('a')).rejects.toMatchObject({ code: 'idp_unreachable' })
  expect(state.asked).toBe(1)
})

test('a key that was known serves while the issuer is silent, however old', async () => {
  const { state, find } = await issuer({ staleMs: 0, paceMs: 0 })
  await find('a')
  state.kids = undefined
  for (let i = 0; i < 3; i++) {
    await expect(find('a')).resolves.toBeDefined()
    await sleep(2)
  }
  await expect(find('b')).rejects.toMatchObject({ code: 'idp_unreachable' })
})

test('a key that is withdrawn goes though nobody asks for another: what is old is asked for again behind its back', async () => {
  const { state, find } = await issuer({ staleMs: 5, paceMs: 0 })
  await find('a')
  state.kids = ['b']
  const found = () => find('a').then(String, (error: { code: string }) => error.code)
  await expect.poll(found).toBe('ERR_JWKS_NO_MATCHING_KEY')
  await expect(find('b')).resolves.toBeDefined()
})
