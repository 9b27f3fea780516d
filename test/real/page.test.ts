// Guarantee: the page's own parts do what they say, on a simulated screen that answers what it is sent.
import type { Desktop } from '@dormouse/client'
import { screenCloses } from '@dormouse/contract/screens'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Browser, keep, says } from './parts/browser.ts'
import { Front } from './parts/front.ts'
import { Instance } from './parts/instance.ts'
import { french, german, press } from './parts/keyboards.ts'

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

test('the controlling page has a clipboard in both directions; a viewer’s has none', async () => {
  const page = await browser.open((await desktop.stream.getUrl({ claim: 'control' })).url)
  await says(page, 'live')
  await page.click('#clipboard')
  await page.fill('#clipboard-text', 'from here')
  // The simulated desktop copies in capitals what it is given.
  await waitFor(async () => (await page.inputValue('#clipboard-text')) === 'FROM HERE')
  await page.fill('#clipboard-text', 'x'.repeat(1_000_001))
  expect(await page.isVisible('#clipboard-too-long')).toBe(true)
  await keep(page, 'clipboard-too-long')
  await page.fill('#clipboard-text', 'shorter')
  await waitFor(async () => (await page.inputValue('#clipboard-text')) === 'SHORTER')
  expect(await page.isHidden('#clipboard-too-long')).toBe(true)
  const viewer = await browser.open((await desktop.stream.getUrl({ claim: 'view' })).url)
  await says(viewer, 'live')
  expect(await viewer.isHidden('#clipboard')).toBe(true)
  await viewer.close()
  await page.close()
})

test('with the browser’s permission, the user’s own clipboard is synchronised in both directions', async () => {
  await using _ = await browser.trust(instance.local.base_url)
  const page = await browser.open((await desktop.stream.getUrl({ claim: 'control', takeover: true })).url)
  await says(page, 'live')
  const own = () => page.evaluate('navigator.clipboard.readText()')
  await page.evaluate(`navigator.clipboard.writeText('copied elsewhere')`)
  await page.evaluate(`dispatchEvent(new Event('focus'))`)
  await waitFor(async () => (await own()) === 'COPIED ELSEWHERE')
  await page.close()
})

test('a screen without key codes receives the characters of the user’s layout', async () => {
  const { url } = await desktop.stream.getUrl({ claim: 'control', takeover: true })
  const sent: Buffer[] = []
  const page = await browser.open(url, async (opening) => {
    await withoutKeyCodes(opening)
    hearSent(opening, sent)
  })
  await says(page, 'live')
  await press(page, [german.ü, german.ß, german.z, french.a, french.é, french.ù])
  await press(page, [german.at, german.euro], true)
  // What waits for the next key says nothing by itself; what comes of both does.
  await press(page, [german.acute, { key: 'é', code: 'KeyE' }, french.circumflex, { key: 'ô', code: 'KeyO' }])
  // A screen's keyboard, or a list of such signs: no place on a keyboard at all.
  await press(page, [{ key: '中', code: '' }])
  // The page brings the guest's Num Lock in line with the user's first.
  const typed = () => keysDown(sent).filter((keysym) => keysym !== altGr && keysym !== numLock)
  await waitFor(() => typed().length >= 11)
  const letters = typed().map((keysym) => String.fromCodePoint(keysym > unicode ? keysym - unicode : keysym))
  // A euro has a number of its own, which is its Unicode's.
  expect(letters.join('')).toBe('üßzaéù@€éô中')
  await page.close()
})

test('the desktop fits the window, whatever its size', async () => {
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
    await waitFor(fits)
  }
  await page.close()
})

test('it goes full screen on request, and captures every key there for the controller', async () => {
  for (const claim of ['control', 'view'] as const) {
    const { url } = await desktop.stream.getUrl({ claim, takeover: true })
    const page = await browser.open(url, (opening) => opening.addInitScript(countLocks))
    await says(page, 'live')
    const fills = (wanted: boolean) =>
      waitFor(async () => (await page.evaluate('document.fullscreenElement !== null')) === wanted)
    await page.click('text=Full screen')
    await fills(true)
    await page.click('text=Leave full screen')
    await fills(false)
    expect(await page.evaluate('locks')).toBe(claim === 'control' ? 1 : 0)
    await page.close()
  }
})

/** Runs in the page: a browser without a window has no keys of its own to give away. */
const countLocks = `
  globalThis.locks = 0
  const lock = navigator.keyboard.lock.bind(navigator.keyboard)
  navigator.keyboard.lock = () => (locks++, lock())`

test.each([
  ['connecting', undefined, 'Connecting…'],
  ['reconnecting', { code: 1001 }, 'keeps running'],
  ['taken-over', { code: screenCloses.takenOver }, '--takeover --view'],
  ['asleep', { code: screenCloses.asleep }, 'dormouse wake'],
  ['waking', { code: screenCloses.asleep, end: { cause: 'waking', why: '' } }, 'as soon as it is awake'],
  ['destroyed', { code: screenCloses.destroyed }, 'nothing left'],
  [
    'ended',
    { code: screenCloses.revoked, end: { cause: 'revoked', why: 'the credential was revoked' } },
    'The credential was revoked.',
  ],
  ['lost', { code: screenCloses.hostLost }, 'is unreachable'],
] as const)(
  '%s: the page says what happened and what to do, in its title too, by day and night, wide and narrow',
  async (state, close, words) => {
    await using front = await Front.before(instance.local.base_url, close)
    const address = `${front.url}/screens/${desktop.id}/view#${'a'.repeat(43)}`
    const page = await browser.open(address, (opening) => opening.clock.install())
    if (state === 'lost') {
      await says(page, 'reconnecting')
      await page.clock.fastForward(301_000)
    }
    await says(page, state)
    expect(await page.textContent('#notice')).toContain(words)
    const short = await page.textContent('#state')
    expect(await page.title()).toBe(`${short} · desktop ${desktop.id}`)
    for (const width of [1_000, 360]) {
      await page.setViewportSize({ width, height: 640 })
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        await keep(page, `page-${state}-${width}-${colorScheme}`)
      }
    }
    await page.close()
  },
)

test('the keyboard gets out of the desktop and back, and everything that can be pressed has a name', async () => {
  const page = await browser.open((await desktop.stream.getUrl({ claim: 'control', takeover: true })).url)
  await says(page, 'live')
  const focused = () => page.evaluate(`document.activeElement.id || document.activeElement.localName`)
  expect(await focused()).toBe('canvas')
  await page.keyboard.press('Tab')
  expect(await focused()).toBe('canvas')
  const leave = async () => {
    await page.keyboard.press('Control+Alt+Shift')
    expect(await focused()).toBe('clipboard')
  }
  await leave()
  await page.keyboard.press('Tab')
  expect(await focused()).toBe('full-screen')
  await page.keyboard.press('Escape')
  expect(await focused()).toBe('canvas')
  await leave()
  await page.keyboard.press('Enter')
  expect(await focused()).toBe('clipboard-text')
  await keep(page, 'page-clipboard')
  await page.keyboard.press('Escape')
  expect(await focused()).toBe('canvas')
  expect(await page.isHidden('#clipboard-panel')).toBe(true)
  for (const [role, name] of [
    ['button', 'Clipboard'],
    ['button', 'Full screen'],
    ['main', 'Screen of the desktop'],
    ['status', ''],
  ] as const) {
    expect(await page.getByRole(role, name ? { name, exact: true } : {}).count(), `${role} ${name}`).toBe(1)
  }
  expect(await page.getByRole('button').count()).toBe(2)
  await page.close()
})

test('an address without a token says what to do, and sends no request', async () => {
  const { base_url } = instance.local
  const page = await browser.open(`${base_url}/screens/${desktop.id}/view`)
  await says(page, 'ended')
  expect(await page.textContent('#notice')).toContain('Request a new link')
  await page.close()
})

test('a link that was cut or changed on its way says so, whatever of it is missing', async () => {
  const { url } = await desktop.stream.getUrl({ claim: 'view', takeover: true })
  const [path, token] = url.split('#') as [string, string]
  const links = [
    url.slice(0, -1),
    `${url}.`,
    `${path.slice(0, -1)}#${token}`,
    `${path}/#${token}`,
    `${path}/${token}`,
    url.replace(desktop.id, desktop.id.slice(0, -1)),
    path.replace(/[^/]+\/view$/, ''),
  ]
  for (const link of links) {
    const page = await browser.open(link)
    await says(page, 'ended')
    expect(await page.textContent('#notice'), link).toMatch(
      /This link no longer works.*dormouse open (<id>|[\w-]{36}) --view/s,
    )
    await page.close()
  }
})

test('a page of another origin opens no screen, and does not spend the link that it used', async () => {
  const { url, websocketUrl } = await desktop.stream.getUrl({ claim: 'view', takeover: true })
  const stranger = await browser.open('about:blank')
  const answer = stranger.evaluate(`new Promise((told) => {
    const socket = new WebSocket('${websocketUrl}')
    socket.onopen = () => told('opened')
    socket.onerror = () => told('refused')
  })`)
  expect(await answer).toBe('refused')
  const page = await browser.open(url)
  await says(page, 'live')
  await stranger.close()
  await page.close()
})

test('the page’s policy allows this service only, no referrer and no frame', async () => {
  const answer = await fetch(`${instance.local.base_url}/screens/${desktop.id}/view`)
  expect(answer.status, await answer.text()).toBe(200)
  const policy = answer.headers.get('content-security-policy') ?? ''
  expect(policy).toContain(`default-src 'none'`)
  expect(policy).toContain(`frame-ancestors 'none'`)
  expect(policy).not.toMatch(/unsafe|\*/)
  expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
  expect(browser.complaints).toEqual([])
})

/** Adds what the page says to the screen. */
const hearSent = (page: Page, sent: Buffer[]) =>
  page.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => typeof payload !== 'string' && sent.push(payload)),
  )

/** The screen never learns that the page could send it key codes: it takes their number (-258) out of the page's encodings. */
const withoutKeyCodes = (page: Page) =>
  page.addInitScript(`{
    const { send } = WebSocket.prototype
    WebSocket.prototype.send = function (data) {
      if (ArrayBuffer.isView(data)) {
        const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
        for (let at = 4; view.getUint8(0) === 2 && at < view.byteLength; at += 4)
          if (view.getInt32(at) === -258) view.setInt32(at, 0)
      }
      send.call(this, data)
    }
  }`)

const altGr = 0xfe03
const numLock = 0xff7f
const unicode = 0x100_0000

/** The keys that went down, of what was sent to a screen. */
function keysDown(sent: Buffer[]): number[] {
  const isKeyDown = (said: Buffer) => said.length === 8 && said[0] === 4 && said[1] === 1
  return sent.filter(isKeyDown).map((said) => said.readUInt32BE(4))
}
