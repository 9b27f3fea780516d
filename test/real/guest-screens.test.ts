// Guarantee: what takes a minute to prove of a real guest's screen: a link works for 60 s, and a screen that does not change is
// 504. And what is typed arrives as it was typed, whatever a person has left pressed or locked.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RfbClient } from '../integration/parts/rfb-client.ts'
import { waitFor } from '../wait-for.ts'
import { Browser, says } from './parts/browser.ts'
import { GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'
import { guest } from './parts/witness.ts'

let instance: Instance
let stage: GuestStage
let browser: Browser
beforeAll(async () => {
  instance = await Instance.start()
  stage = await GuestStage.awake(instance)
  browser = await Browser.start()
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await instance?.[Symbol.asyncDispose]()
})

test('a link that nobody opened within 60 s opens nothing and says so; one that was made after it opens', async () => {
  const { url, expiresAt } = await stage.desktop.stream.getUrl({ claim: 'view' })
  const expiresIn = () => Date.parse(expiresAt) - Date.now()
  await waitFor(() => expiresIn() < 10_000, 60_000)
  const later = await stage.desktop.stream.getUrl({ claim: 'view' })
  await waitFor(() => expiresIn() < 0, 20_000)
  const page = await browser.open(url)
  await says(page, 'ended')
  expect(await page.textContent('#notice')).toContain('has expired')
  await page.close()
  const fresh = await browser.open(later.url)
  await says(fresh, 'live')
  await fresh.close()
})

test('a screenshot of a stopped screen is 504, and works again once QEMU continues', async () => {
  process.kill(stage.qemu, 'SIGSTOP')
  try {
    const asked = stage.client.screenshot(stage.desktop.id)
    await expect(asked).rejects.toMatchObject({ status: 504, problem: { code: 'guest_deadline' } })
  } finally {
    process.kill(stage.qemu, 'SIGCONT')
  }
  expect((await stage.client.screenshot(stage.desktop.id)).length).toBeGreaterThan(1_000)
})

/** What the guest's shell made of a text that was typed. */
async function typed(text: string): Promise<string> {
  const { client, desktop } = stage
  const line = `echo ${text} > /run/typed.new; mv /run/typed.new /run/typed\n`
  const { outcome } = await client.sendInput(desktop.id, { actions: [{ type: 'type', text: line }] })
  expect(outcome).toBe('done')
  return await waitFor(() => guest(desktop, 'cat /run/typed 2>/dev/null; rm -f /run/typed'))
}
const tap = (...keys: string[]) =>
  stage.client.sendInput(stage.desktop.id, { actions: keys.map((key) => ({ type: 'key', keys: [key] })) })

test('keys, buttons and Caps Lock that a person has left do not change what is typed, also after a sleep', async () => {
  const { desktop } = stage
  const capsIsOn = async () => (await guest(desktop, 'cat /sys/class/leds/*capslock/brightness')).trim() !== '0'
  const { websocketUrl } = await desktop.stream.getUrl({ claim: 'control' })
  const person = await RfbClient.connect(websocketUrl)
  await guest(desktop, '(cat /dev/input/event2 > /run/buttons) < /dev/null > /dev/null 2>&1 &')
  const buttons = () => guest(desktop, 'od -An -v -tx2 -w24 /run/buttons')
  const lastOfLeft = async () => (await buttons()).split('\n').findLast((line) => / 0001 0110 /.test(line))
  person.key(0x2a, true)
  person.point(9, 9, 1)
  await waitFor(async () => / 0001 0110 0001 /.test((await lastOfLeft()) ?? ''))
  expect(await typed('Hello One')).toBe('Hello One\n')
  person.key(0x2a, false)
  person.key(0x2a, true)
  await tap('CapsLock')
  await waitFor(capsIsOn)
  await desktop.hibernate()
  await desktop.wake()
  expect(/ 0001 0110 0000 /.test((await lastOfLeft()) ?? '')).toBe(true)
  expect(await typed('Hello Two')).toBe('Hello Two\n')
  expect(await capsIsOn()).toBe(true)
  await tap('CapsLock')
  person.close()
})
