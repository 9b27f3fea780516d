// Guarantee: what a program types arrives whole, in a terminal and in a browser, and its mouse goes to the position that is
// sent.
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ensureDesktopImage } from '../../infra/guest-image/desktop.ts'
import { Instance } from '../real/parts/instance.ts'
import { guest } from '../real/parts/witness.ts'
import { waitFor } from '../wait-for.ts'
import { BrowserPage } from './parts/browser-page.ts'
import { Terminal } from './parts/terminal.ts'
import { texts } from './parts/texts.ts'

const testbed = join(import.meta.dirname, '../../.dormouse-test')
let instance: Instance
let desktop: Desktop
beforeAll(async () => {
  await ensureDesktopImage({ imagesDir: join(testbed, 'images'), say: console.log })
  instance = await Instance.start({ DORMOUSE_TIER_DEFAULT: '2,2048,10', DORMOUSE_WAKE_DEADLINE_SECS: '900' })
  desktop = await instance.create({ tier: 'default', imageVersion: 'desktop' })
  await desktop.wake()
}, 900_000)
afterAll(() => instance?.[Symbol.asyncDispose]())

const asUser = (command: string): Promise<string> => guest(desktop, `su user -c 'cd; export DISPLAY=:0; ${command}'`)

describe('in a terminal', () => {
  let terminal: Terminal
  beforeAll(async () => {
    terminal = await Terminal.open(desktop, 'alphabet soup\nfive clicks\nthe third line\nfrom here to there\n')
  }, 300_000)
  afterAll(() => terminal?.close())

  const selected = () => asUser('timeout 5 xclip -selection primary -o || true')
  const rowPixels = 18
  test.each([
    ['two clicks select the word', { count: 2, row: 0 }, 'alphabet'],
    ['five clicks do: GTK counts to three', { count: 5, row: 1 }, 'five'],
    ['three clicks select the line', { count: 3, row: 2 }, 'the third line'],
  ])('%s', async (_what, { count, row }, what) => {
    await desktop.input([{ type: 'click', x: 20, y: (row + 0.5) * rowPixels, count }])
    await waitFor('the selection', async () => (await selected()).trimEnd() === what)
  })

  test('a drag selects from where it began to where it ended', async () => {
    const y = 3.5 * rowPixels
    const path = [
      { x: 2, y },
      { x: 700, y },
    ]
    await desktop.input([{ type: 'drag', path }])
    await waitFor('the selection', async () => (await selected()).trimEnd() === 'from here to there')
  })

  // What was selected is gone from the screen then.
  test.each(texts)('%s', async (_what, text) => {
    expect(await terminal.type(text)).toBe(text)
  })
})

describe('in a browser', () => {
  let page: BrowserPage
  beforeAll(async () => {
    page = await BrowserPage.open(desktop)
  }, 900_000)
  afterAll(() => page?.[Symbol.asyncDispose]())

  test.each(texts)('%s', async (_what, text) => {
    expect(await page.type(text)).toBe(text)
  })

  test('a click arrives at the pixel that was meant, also at the edges of the screen', async () => {
    const places = [
      { x: 0, y: 100 },
      { x: 0, y: 0 },
      { x: 1279, y: 799 },
      { x: 641, y: 399 },
    ]
    await desktop.input(places.map((at) => ({ type: 'click', ...at })))
    const clicked = places.flatMap(({ x, y }) => ['mousedown', 'mouseup'].map((type) => ({ type, x, y, detail: 1 })))
    expect(await page.heard()).toEqual(clicked)
  })

  test('five clicks are five', async () => {
    await desktop.input([{ type: 'click', x: 300, y: 300, count: 5 }])
    const heard = await page.heard()
    expect(
      heard
        .filter(({ type }) => type === 'mousedown')
        .map(({ detail }) => detail)
        .slice(0, 3),
    ).toEqual([1, 2, 3])
    expect(heard.filter(({ type }) => type === 'mousedown')).toHaveLength(5)
    expect(heard.filter(({ type }) => type === 'mouseup')).toHaveLength(5)
  })

  test('a drag begins and ends where it was sent', async () => {
    const path = [
      { x: 100, y: 50 },
      { x: 900, y: 140 },
    ]
    await desktop.input([{ type: 'drag', path }])
    const ends = (await page.heard()).map(({ type, x, y }) => ({ type, x, y }))
    expect(ends).toEqual([
      { type: 'mousedown', ...path[0] },
      { type: 'mouseup', ...path[1] },
    ])
  })
})
