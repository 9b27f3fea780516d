// Guarantee: a desktop of the distribution's own system, with a screen one works on by mouse, is carried as any other.
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Desktop, Operation } from '@dormouse/client'
import type { Page } from 'playwright-core'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ensureDesktopImage } from '../../infra/guest-image/desktop.ts'
import { RfbClient } from '../integration/parts/rfb-client.ts'
import { Browser, says } from '../real/parts/browser.ts'
import { Instance } from '../real/parts/instance.ts'
import { guest } from '../real/parts/witness.ts'
import { waitFor } from '../wait-for.ts'

const testbed = join(import.meta.dirname, '../../.dormouse-test')
const unit = 'dormouse-ssh-port.service'

let instance: Instance
let browser: Browser
let desktop: Desktop
let woken: Operation['result']
beforeAll(async () => {
  await ensureDesktopImage({ imagesDir: join(testbed, 'images'), say: console.log })
  instance = await Instance.start({ DORMOUSE_TIER_DEFAULT: '2,2048,10', DORMOUSE_WAKE_DEADLINE_SECS: '900' })
  browser = await Browser.start()
  desktop = await instance.create({ tier: 'default', imageVersion: 'desktop' })
  woken = (await timed('wake from image', () => desktop.wake())).result
}, 900_000)
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await instance?.[Symbol.asyncDispose]()
})

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now()
  const done = await work()
  console.log(`${what}: ${((performance.now() - began) / 1_000).toFixed(2)} s`)
  return done
}

/** What runs over the guest agent is of another unit. */
const unitOfCommands = (): Promise<string> => guest(desktop, 'cat /proc/self/cgroup')

/** Over SSH, as soon as that is there. */
const overSsh = (): Promise<unknown> =>
  timed('SSH', () => waitFor(async () => (await unitOfCommands().catch(() => '')).includes(unit), 45_000))

const asUser = (command: string): Promise<string> =>
  guest(desktop, `su user -c ${quote(`cd; export DISPLAY=:0; ${command}`)}`)
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

const sleepAndWake = async (): Promise<void> => {
  await timed('hibernate', () => desktop.hibernate())
  const { result } = await timed('wake from memory', () => desktop.wake())
  expect(result?.resumedFrom).toBe('memory')
}

/** The screen, once it has stood still for a while. */
async function still(name: string): Promise<PNG> {
  let last = Buffer.alloc(0)
  await waitFor(async () => {
    const now = Buffer.from(await desktop.screenshot())
    const same = now.equals(last)
    last = now
    return same
  }, 60_000)
  keep(name, last)
  return PNG.sync.read(last)
}

/** The screen, once it shows that. */
const seen = (name: string, shows: (picture: PNG) => boolean): Promise<PNG> =>
  waitFor(async () => {
    const picture = await still(name)
    return shows(picture) && picture
  }, 60_000)

function keep(name: string, picture: Uint8Array): void {
  mkdirSync(join(testbed, 'pictures'), { recursive: true })
  writeFileSync(join(testbed, 'pictures', `desktop-${name}.png`), picture)
}

/** How many of its pixels have this colour. */
function count({ data }: PNG, [red, green, blue]: [number, number, number]): number {
  let found = 0
  for (let at = 0; at < data.length; at += 4) {
    if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) found++
  }
  return found
}

test('when it is awake, its session is on its screen', async () => {
  const picture = Buffer.from(await desktop.screenshot())
  keep('woken', picture)
  expect(woken?.ready).toBe(true)
  expect(count(PNG.sync.read(picture), taskBar)).toBeGreaterThan(1_000)
})

describe('its commands and files', () => {
  test('the guest boots whole: no unit failed, and the SSH port’s is as systemd wants it', async () => {
    await overSsh()
    const { stdout } = await desktop.commands.run('systemctl is-system-running --wait', { timeoutMs: 120_000 })
    expect({ state: stdout.trim(), failed: await guest(desktop, 'systemctl --failed --plain --no-legend') }).toEqual({
      state: 'running',
      failed: '',
    })
    console.log((await guest(desktop, 'systemd-analyze')).split('\n')[0])
    expect(await guest(desktop, `systemd-analyze verify --man=no ${unit} 2>&1`)).toBe('')
  })

  test('8 MiB go in and come out the same', async () => {
    const bytes = randomBytes(8 * 1024 * 1024)
    await timed('8 MiB in', () => desktop.files.write('/srv/bytes', bytes))
    const hash = createHash('sha256').update(bytes).digest('hex')
    expect(await guest(desktop, 'sha256sum < /srv/bytes')).toContain(hash)
    const back = await timed('8 MiB out', () => desktop.files.read('/srv/bytes', { format: 'bytes' }))
    expect(createHash('sha256').update(back).digest('hex')).toBe(hash)
  })

  test('after a sleep they go on over SSH, on the same boot', async () => {
    const boot = () => guest(desktop, 'cat /proc/sys/kernel/random/boot_id')
    const before = await boot()
    await sleepAndWake()
    expect(await boot()).toBe(before)
    await overSsh()
  })

  test.each([
    ['server', 'pkill -9 -x sshd'],
    ['program', 'pkill -9 -f /usr/lib/dormouse/dormouse-ssh-port'],
    ['whole unit', `systemctl kill --signal=KILL ${unit}`],
  ])('after the %s of the port is killed they come back', async (_what, command) => {
    // A command that ends what carries it may be answered or not.
    await desktop.commands.run(`${command}; true`).catch((error: Error) => console.log(error.message))
    await overSsh()
    await waitFor(() => guest(desktop, `systemctl is-active ${unit}`).catch(() => undefined), 30_000)
  })
})

describe('its screen', () => {
  let page: Page
  beforeAll(async () => {
    page = await browser.open((await desktop.stream.getUrl({ claim: 'control' })).url)
    await says(page, 'live')
  })

  /** Where a place of the guest's screen is on the page. */
  async function click(x: number, y: number, button: 'left' | 'right' = 'left'): Promise<void> {
    const box = (await page.locator('#screen canvas').boundingBox())!
    const scale = box.width / PNG.sync.read(Buffer.from(await desktop.screenshot())).width
    await page.mouse.click(box.x + x * scale, box.y + y * scale, { button, delay: 100 })
  }

  test('a terminal is opened by mouse, and what is typed there is done and seen', async () => {
    const before = await seen('before', (picture) => count(picture, taskBar) > 1_000)
    // The terminal's sign stands beside the browser's, at the lower left.
    await click(...terminalSign(before))
    await seen('terminal', (picture) => count(picture, terminalColour) > count(before, terminalColour) + 50_000)
    // Keys that need no shift, which the driver of the browser would not press.
    await page.keyboard.type('touch typed; tput setab 2; tput clear\n', { delay: 20 })
    await waitFor(() => guest(desktop, 'ls /home/user/typed').catch(() => undefined), 30_000)
    await seen('typed', (picture) => count(picture, green) > 50_000)
    keep('page', await page.screenshot())
  })

  test('after a sleep the picture is the same, to the last bit', async () => {
    const before = await still('asleep')
    await sleepAndWake()
    expect((await still('awake')).data.equals(before.data)).toBe(true)
    await says(page, 'live')
  })

  describe('its clipboard', () => {
    const copied = 'copied in the guest: Grüße, 你好\nand a second line'
    const pasted = 'written on the page: Grüße, 你好\nand a second line'
    const copy = (text: string) => asUser(`printf %s ${quote(text)} | xclip -selection clipboard > /dev/null 2>&1`)
    const paste = () => asUser('timeout 2 xclip -selection clipboard -out').catch(() => undefined)

    const before: Record<string, () => Promise<unknown>> = {
      'at first': async () => undefined,
      'a sleep later': sleepAndWake,
      'when its part in the session was killed': () => guest(desktop, 'pkill -x spice-vdagent'),
    }
    test.each(Object.entries(before))('goes both ways for who controls: %s', async (when, happens) => {
      await happens()
      await says(page, 'live')
      await page.evaluate("document.querySelector('#clipboard-panel').hidden = false")
      // Again until the guest's daemon is back; each copy is awaited, for the last word has whoever comes last.
      let copies = 0
      const arrives = async () => {
        const text = `${copied} ${when} ${++copies}`
        await copy(text)
        return waitFor(async () => (await page.inputValue('#clipboard-text')) === text, 5_000).catch(() => false)
      }
      await timed('copied', () => waitFor(arrives, 60_000))
      await page.fill('#clipboard-text', `${pasted} ${when}`)
      await timed('pasted', () => waitFor(async () => (await paste()) === `${pasted} ${when}`, 30_000))
      keep('clipboard', await page.screenshot())
    })

    test('takes what is pasted the moment the page is live, every sign of it', async () => {
      await page.reload()
      await page.evaluate(`new Promise((pasted) => {
        const box = document.querySelector('#clipboard-text')
        const look = () => {
          if (document.body.dataset.state !== 'live') return setTimeout(look, 1)
          box.value = 'at once: 你好'
          pasted(box.dispatchEvent(new Event('input')))
        }
        look()
      })`)
      await timed('pasted', () => waitFor(async () => (await paste()) === 'at once: 你好', 30_000))
      await page.evaluate("document.querySelector('#clipboard-panel').hidden = false")
    })

    test('is not a viewer’s: what is copied does not reach it, and what it sends reaches nobody', async () => {
      const viewer = await RfbClient.connect((await desktop.stream.getUrl({ claim: 'view' })).websocketUrl)
      const [raw, extendedClipboard] = [
        [0, 0, 0, 0],
        [0xc0, 0xa1, 0xe5, 0xce],
      ] as const
      viewer.send(2, 0, 0, 2, ...raw, ...extendedClipboard)
      // It sends a clipboard of its own, as a client without that wish would.
      viewer.send(6, 0, 0, 0, 0, 0, 0, 6, ...Buffer.from('sneaky'))
      await copy('for one alone')
      await waitFor(async () => (await page.inputValue('#clipboard-text')) === 'for one alone', 30_000)
      expect(await paste()).toBe('for one alone')
      // The next thing that comes is the picture it asked for, and nothing came before.
      expect(viewer.unread).toBe(0)
      await viewer.frame()
      viewer.close()
    })
  })
})

test('an agent loop with a scripted model fills in a form in the browser, downloads a file and reads it back', async () => {
  const { base_url: DORMOUSE_URL, api_key: DORMOUSE_API_KEY } = instance.local
  const env = { ...process.env, DORMOUSE_URL, DORMOUSE_API_KEY }
  const example = join(import.meta.dirname, '../../examples/form.ts')
  const run = promisify(execFile)(process.execPath, [example, desktop.id], { env })
  const { stdout } = await timed('the example', () => run)
  console.log(stdout)
  expect(stdout).toContain('{"name":"Ada Lovelace","text":"Hello (a>b) & {x|y}"}')
}, 900_000)

const terminalColour: [number, number, number] = [0x1d, 0x27, 0x33]
const green: [number, number, number] = [0, 0xaa, 0]
const taskBar: [number, number, number] = [0x1c, 0x1c, 0x1c]

function terminalSign({ height }: PNG): [number, number] {
  return [126, height - 20]
}
