// Guarantee: a paste is done only if the guest has read the text, and what was copied before is back then.
import { duplexPair } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { SimulatedScreen } from '../driver/simulated/screen.ts'
import { offerTo } from './clipboards.ts'
import { Damage } from './damage.ts'
import { paste } from './paste.ts'
import { RfbSession } from './rfb-session.ts'

let screen: SimulatedScreen
let session: RfbSession
beforeEach(async () => {
  screen = new SimulatedScreen()
  const [guest, host] = duplexPair()
  void screen.serve(guest, new AbortController().signal)
  session = await RfbSession.open(host)
})
afterEach(() => session.close())

const [control, keyV] = [0x1d, 0x2f]
const pressKeys = async () => {
  for (const key of [control, keyV]) session.key(key, true)
  for (const key of [keyV, control]) session.key(key, false)
}

async function pasting(
  text: string,
  options: { pressKeys?: typeof pressKeys; signal?: AbortSignal; askMs?: number } = {},
) {
  const damage = new Damage()
  using _watched = session.watch((region) => damage.changed(region))
  await paste(session, text, { pressKeys, damage, signal: new AbortController().signal, askMs: 50, ...options })
}

test('the program gets the text, and the guest’s own text is back then', async () => {
  screen.copy('copied in the guest')
  await session.refresh()
  await pasting('Grüße Ř €')
  await pasting('日本\n')
  expect(screen.pasted).toEqual(['Grüße Ř €', '日本\n'])
  expect(await screen.paste()).toBe('copied in the guest')
})

test('a slow program that asks twice gets the text both times, though it draws something meanwhile', async () => {
  screen.copy('copied in the guest')
  await session.refresh()
  screen.asksTwiceAfterMs = 300
  await pasting('Grüße Ř €', { askMs: 5_000 })
  expect(screen.pasted).toEqual(['Grüße Ř €'])
  expect(await screen.paste()).toBe('copied in the guest')
})

test('where no program asks, the paste fails and says what to do; the guest’s own text is back', async () => {
  screen.copy('copied in the guest')
  await session.refresh()
  await expect(pasting('text', { pressKeys: async () => undefined })).rejects.toThrow(/no program asked.*`paste`/)
  expect(await screen.paste()).toBe('copied in the guest')
  screen.copy('copied in the guest')
  await session.refresh()
  screen.offersToDrop = 1
  await expect(pasting('text')).rejects.toThrow('no program asked')
})

test('a batch that is interrupted does not wait for the guest', async () => {
  await expect(
    pasting('text', { pressKeys: async () => undefined, signal: AbortSignal.abort() }),
  ).resolves.toBeUndefined()
})

test('an offer that the guest drops is repeated until a program asks for it', async () => {
  screen.offersToDrop = 1
  offerTo(session.clipboard, 'text')
  await session.refresh()
  expect(await screen.paste()).toBe('')
  await expect.poll(() => screen.paste()).toBe('text')
  expect(session.clipboard.isOffered).toBe(false)
})
