// Guarantee: what takes a minute to prove of a real guest's screen: a link lives 60 s, and a screen that stands still is 504.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Browser, says } from './parts/browser.ts'
import { GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

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
