// Guarantee: the picture after a click with `settle` shows what the click did, a hundred times of a hundred, on a loaded machine.
import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureDesktopImage } from '../../infra/guest-image/desktop.ts'
import { percentile } from '../bench/statistics.ts'
import { Instance } from '../real/parts/instance.ts'
import { waitFor } from '../wait-for.ts'

const testbed = join(import.meta.dirname, '../../.dormouse-test')
const clicks = 100
let instance: Instance
let desktop: Desktop
let burners: ChildProcess[] = []
beforeAll(async () => {
  await ensureDesktopImage({ imagesDir: join(testbed, 'images'), say: console.log })
  instance = await Instance.start({ DORMOUSE_TIER_DEFAULT: '2,1024,10', DORMOUSE_WAKE_DEADLINE_SECS: '900' })
  desktop = await instance.create({ tier: 'default', imageVersion: 'desktop' })
  await desktop.wake()
}, 900_000)
afterAll(async () => {
  for (const burner of burners) burner.kill('SIGKILL')
  await instance?.[Symbol.asyncDispose]()
})

/** A program on the screen that fills it with another colour at each press of a button. */
const program = `import os, re, sys, termios, tty
colour = lambda n: (n * 2, 255 - n * 2, n * 37 % 256)
fill = lambda n: os.write(1, b'\\x1b[48;2;%d;%d;%dm\\x1b[2J' % colour(n))
tty.setraw(0)
os.write(1, b'\\x1b[?25l\\x1b[?1000h\\x1b[?1006h')
fill(0)
n = 0
while True:
    for _ in re.findall(rb'\\x1b\\[<0;[0-9]+;[0-9]+M', os.read(0, 4096)):
        n += 1
        fill(n)
`
const colourOf = (n: number) => [n * 2, 255 - n * 2, (n * 37) % 256]

/** The colour of a place where the pointer never is: it begins in the screen's middle. */
const colourSeen = (picture: Uint8Array): number[] => {
  const { data, width } = PNG.sync.read(Buffer.from(picture))
  const at = (50 * width + 50) * 4
  return [...data.subarray(at, at + 3)]
}

test('the picture after a click shows what the click did', async () => {
  await desktop.files.write('/home/user/fill.py', program)
  await desktop.launch(['xfce4-terminal', '--fullscreen', '--hide-menubar', '-x', 'python3', '/home/user/fill.py'])
  const isFilled = async () => String(colourSeen(await desktop.screenshot())) === String(colourOf(0))
  await waitFor('the program to fill the screen', isFilled, 240_000)
  await desktop.takeScreenshot({ wait: 'settled', quietMs: 3_000, maxMs: 30_000 })
  burners = Array.from({ length: availableParallelism() }, () => spawn(process.execPath, ['-e', 'for(;;);']))
  const wrong: string[] = []
  const tookMs: number[] = []
  for (let n = 1; n <= clicks; n++) {
    const began = performance.now()
    const at = { x: 100 + ((n * 331) % 1_000), y: 100 + ((n * 173) % 550) }
    const { settled, settleMs, screenshot } = await desktop.input([{ type: 'click', ...at }], {
      ...{ settle: { maxMs: 30_000 }, screenshot: true },
    })
    tookMs.push(performance.now() - began)
    const seen = colourSeen(Buffer.from(screenshot!.data, 'base64'))
    if (String(seen) !== String(colourOf(n))) wrong.push(`click ${n}: ${seen}, settled ${settled} in ${settleMs} ms`)
  }
  console.log(`click to settled picture: p50 ${percentile(tookMs, 0.5)} ms, p99 ${percentile(tookMs, 0.99)} ms`)
  expect(wrong).toEqual([])
}, 900_000)
