// Guarantee: a program reads what was copied in a desktop, and the desktop's programs paste what a program has written.
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureDesktopImage } from '../../infra/guest-image/desktop.ts'
import { Instance } from '../real/parts/instance.ts'
import { guest } from '../real/parts/witness.ts'
import { waitFor } from '../wait-for.ts'

const testbed = join(import.meta.dirname, '../../.dormouse-test')
let instance: Instance
let desktop: Desktop
beforeAll(async () => {
  await ensureDesktopImage({ imagesDir: join(testbed, 'images'), say: console.log })
  instance = await Instance.start({ DORMOUSE_TIER_DEFAULT: '2,1024,10', DORMOUSE_WAKE_DEADLINE_SECS: '900' })
  desktop = await instance.create({ tier: 'default', imageVersion: 'desktop' })
  await desktop.wake()
  const isShared = () =>
    desktop.clipboard.read().then(
      () => true,
      () => false,
    )
  await waitFor('the session to share its clipboard', isShared, 300_000)
}, 900_000)
afterAll(() => instance?.[Symbol.asyncDispose]())

const asUser = (command: string): Promise<string> => guest(desktop, `su user -c 'cd; export DISPLAY=:0; ${command}'`)
const pasted = () => asUser('timeout 20 xclip -selection clipboard -o || true')
const copy = (text: string) => asUser(`printf %s "${text}" | xclip -selection clipboard > /dev/null 2>&1`)

/** How many pixels are nearly white, as the page of an editor is. */
function light({ data }: PNG): number {
  let found = 0
  for (let at = 0; at < data.length; at += 4) if (Math.min(data[at]!, data[at + 1]!, data[at + 2]!) > 240) found++
  return found
}

const text = 'Grüße Ř €\n\tzweite Zeile 日本'

test('what a program writes is pasted, also minutes later; what is copied in the desktop is read', async () => {
  await desktop.clipboard.write(text)
  await waitFor('the guest to have the text', async () => (await pasted()) === text, 120_000)
  expect(await desktop.clipboard.read()).toBe(text)
  // Longer than a connection that is not used is kept.
  await guest(desktop, 'sleep 12')
  expect(await pasted()).toBe(text)
  await copy('from the desktop')
  await waitFor('the copied text', async () => (await desktop.clipboard.read()) === 'from the desktop', 120_000)
})

test('a text of the largest size comes back whole', async () => {
  const large = 'ä'.repeat(131_072)
  await desktop.clipboard.write(large)
  const sizes = () => asUser('timeout 20 xclip -selection clipboard -o | wc -c')
  await waitFor('the guest to have it', async () => (await sizes()).trim() === '262144', 120_000)
})

test('what no key types is pasted into an editor, in its place; what was copied before is back then', async () => {
  await copy('copied before')
  await waitFor('the copied text', async () => (await desktop.clipboard.read()) === 'copied before', 120_000)
  await desktop.launch(['mousepad', '/home/user/pasted.txt'])
  await waitFor(
    'the editor',
    async () => light(PNG.sync.read(Buffer.from(await desktop.screenshot()))) > 100_000,
    120_000,
  )
  const typed = 'Grüße Ř €\nplain\tcell Ä\tend\n'
  expect(await desktop.input([{ type: 'type', text: typed }], { settle: true })).toMatchObject({ outcome: 'done' })
  await desktop.press(['Control', 's'], { settle: true })
  await waitFor('the saved text', async () => (await asUser('cat pasted.txt || true')) === typed, 30_000)
  expect(await pasted()).toBe('copied before')
  expect(await desktop.clipboard.read()).toBe('copied before')
})

test('where no program pastes, the batch fails and says what to do', async () => {
  expect(await desktop.input([{ type: 'type', text: 'Ř', paste: ['F9'] }])).toMatchObject({
    ...{ outcome: 'failed', performed: 0 },
    reason: expect.stringContaining('no program asked for it'),
  })
})

test('the clipboard works again after a sleep', async () => {
  await desktop.hibernate()
  await desktop.wake()
  await desktop.clipboard.write('after the sleep')
  await waitFor('the guest to have the text', async () => (await pasted()) === 'after the sleep', 120_000)
})

test('a guest whose program for it does not run is refused with what to do', async () => {
  await guest(desktop, 'systemctl stop spice-vdagentd.socket spice-vdagentd')
  await expect(desktop.clipboard.read()).rejects.toMatchObject({
    code: 'clipboard_unavailable',
    message: expect.stringContaining('spice-vdagent'),
  })
})
