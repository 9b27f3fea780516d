// Guarantee: the page's own parts do what they say, on a simulated screen that answers what it is sent.
import type { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser, says } from './browser.ts'
import { Instance, until } from './instance.ts'

let instance: Instance
let browser: Browser
let desktop: Desktop
beforeAll(async () => {
  instance = await Instance.start({}, ['--simulated', '1', '--no-tour'])
  browser = await Browser.start()
  desktop = await instance.create()
  await desktop.wake()
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await instance?.[Symbol.asyncDispose]()
})

test('whoever controls has a clipboard, both ways; a viewer has none', async () => {
  const page = await browser.open((await desktop.stream.getUrl({ claim: 'control' })).url)
  await says(page, 'live')
  await page.click('#clipboard')
  await page.fill('#clipboard-text', 'from here')
  // The simulated desktop copies in capitals what it is given.
  await until(async () => (await page.inputValue('#clipboard-text')) === 'FROM HERE', 10_000)
  const viewer = await browser.open((await desktop.stream.getUrl({ claim: 'view' })).url)
  await says(viewer, 'live')
  expect(await viewer.isHidden('#clipboard')).toBe(true)
  await viewer.close()
  await page.close()
})

test('the desktop fits the window, whatever its size, and fills the screen when asked', async () => {
  const page = await browser.open((await desktop.stream.getUrl({ claim: 'view', takeover: true })).url)
  await says(page, 'live')
  for (const size of [
    { width: 1_200, height: 500 },
    { width: 400, height: 800 },
  ]) {
    await page.setViewportSize(size)
    const fits = async () => {
      const box = await page.locator('#screen canvas').boundingBox()
      return box !== null && box.width <= size.width && box.height <= size.height - 36 && box.width > size.width * 0.5
    }
    await until(fits, 5_000)
  }
  await page.click('#full-screen')
  await until(() => page.evaluate('document.fullscreenElement !== null') as Promise<boolean>, 5_000)
  await page.close()
})

test('an address without a link’s token says what to do, and asks for nothing', async () => {
  const { base_url } = instance.local
  const page = await browser.open(`${base_url}/screens/${desktop.id}/view`)
  await says(page, 'ended')
  expect(await page.textContent('#notice')).toContain('Ask for a new link')
  await page.close()
})

test('the page lets nothing of others in: a policy that names this service alone, no referrer, no frame', async () => {
  const answer = await fetch(`${instance.local.base_url}/screens/${desktop.id}/view`)
  const policy = answer.headers.get('content-security-policy') ?? ''
  expect(policy).toContain(`default-src 'none'`)
  expect(policy).toContain(`frame-ancestors 'none'`)
  expect(policy).not.toMatch(/unsafe|\*/)
  expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
  expect(browser.complaints).toEqual([])
})
