// Guarantee: a desktop of one's own has its packages, its files and its keyboard, and what a program types there arrives whole.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Instance } from '../real/parts/instance.ts'
import { guest } from '../real/parts/witness.ts'
import { BrowserPage } from './parts/browser-page.ts'
import { Terminal } from './parts/terminal.ts'
import { texts } from './parts/texts.ts'

const root = join(import.meta.dirname, '../..')
const files = mkdtempSync(join(tmpdir(), 'dormouse-own-'))
let instance: Instance
let desktop: Desktop
beforeAll(async () => {
  mkdirSync(join(files, 'home/user'), { recursive: true })
  writeFileSync(join(files, 'home/user/mine.txt'), 'mine\n')
  const words = ['--packages', 'tree', '--files', files, '--keyboard', 'de', '--name', 'german']
  const build = ['scripts/with-node.sh', 'infra/guest-image/build.ts', 'desktop', ...words]
  await promisify(execFile)('sh', [...build, '--out', '.dormouse-test/images'], { cwd: root })
  instance = await Instance.start({ DORMOUSE_TIER_DEFAULT: '2,2048,10', DORMOUSE_WAKE_DEADLINE_SECS: '900' })
  desktop = await instance.create({ tier: 'default', imageVersion: 'german' })
  await desktop.wake()
}, 1_800_000)
afterAll(async () => {
  rmSync(files, { recursive: true })
  await instance?.[Symbol.asyncDispose]()
})

test('its packages are installed, and its files belong to who uses them', async () => {
  expect(await guest(desktop, 'tree --noreport /etc/skel/Documents')).toContain('Documents')
  expect(await guest(desktop, 'stat -c %U /home/user/mine.txt; cat /home/user/mine.txt')).toBe('user\nmine\n')
})

describe('on a German keyboard, in a terminal', () => {
  let terminal: Terminal
  beforeAll(async () => {
    terminal = await Terminal.open(desktop)
  }, 300_000)
  afterAll(() => terminal?.close())

  test.each(texts)('%s', async (_what, text) => {
    expect(await terminal.type(text)).toBe(text)
  })
})

describe('on a German keyboard, in a browser', () => {
  let page: BrowserPage
  beforeAll(async () => {
    page = await BrowserPage.open(desktop)
  }, 900_000)
  afterAll(() => page?.[Symbol.asyncDispose]())

  test.each(texts)('%s', async (_what, text) => {
    expect(await page.type(text)).toBe(text)
  })
})
