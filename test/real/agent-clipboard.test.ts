// Guarantee: a guest that shares its clipboard sleeps and wakes as any other, though QEMU saves none that is sharing it. What a
// program types into it arrives as it was typed, and nothing stays pressed when its agent is killed.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { type InputCommand, newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { AgentProcess } from './parts/agent-process.ts'
import { guestSpec, Stage, smallMiB } from './parts/agent-stage.ts'
import { asGerman } from './parts/keyboards.ts'

let stage: Stage
let bench: Bench<LibvirtDriver>
/** Where the image is, and the sockets of screens. */
let folders: { imagesDir: string; socketsDir: string }
const id = newId()
const long = process.env.DORMOUSE_TEST_LONG === '1'

beforeAll(async () => {
  stage = await Stage.start()
  const of = (name: string) => join(stage.libvirtd.shortDir, name)
  folders = { imagesDir: of('images'), socketsDir: of('sockets') }
  cpSync(stage.miniImage, join(folders.imagesDir, 'mini'), { recursive: true })
  imageSays({ clipboard: true })
  bench = await stage.bench('clipboard', folders, memoryFolder())
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
})
afterAll(async () => {
  await bench?.destroyed(fenceOf(id, 9, 9))
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const memoryFolder = () => join(stage.smallFolder, 'memory')

/** For the clipboard's port, no program in the guest is needed. */
function imageSays(more: object): void {
  const file = join(folders.imagesDir, 'mini', 'manifest.json')
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...more }))
}

const batch = (actions: InputCommand['actions'], more: Partial<InputCommand> = {}): InputCommand => ({
  ...{ desktopId: id, generation: 1, batchId: newId(), actions, space: null, expectedScreen: null, paceMs: 20 },
  ...{ settle: { quietMs: 300, maxMs: 10_000 }, ...more },
})

/** What arrives of a text. A guest that is starved of processor time loses keys, and gets them again, more slowly. */
async function arrives(text: string, paces = [20, 60, 120]): Promise<void> {
  for (const paceMs of paces) {
    await bench.run(id, 'killall cat 2>/dev/null; rm -f /run/typed')
    await bench.ask('input.perform', batch([{ type: 'type', text: '\ncat > /run/typed\n' }], { paceMs }))
    const typing: InputCommand['actions'] = [
      { type: 'type', text },
      { type: 'key', keys: ['Control', 'd'] },
    ]
    expect(await bench.ask('input.perform', batch(typing, { paceMs }))).toMatchObject({ outcome: 'done', performed: 2 })
    const typed = await bench.run(id, 'cat /run/typed')
    if (typed === text.trimEnd() || paceMs === paces.at(-1)) return expect(typed).toBe(text.trimEnd())
  }
}

const ports = (): Promise<string> => bench.run(id, 'cat /sys/class/virtio-ports/*/name')

const sentence = 'Hello_World-42 (a>b) & {x|y} #~$\nFOO\nFOO\n'

test('text arrives on an American layout as it was typed', () => arrives(sentence))

test('text arrives on a German layout as it was typed', async () => {
  const before = await bench.run(id, 'dumpkmap | base64')
  const load = (keys: string) => bench.run(id, `echo '${keys}' | base64 -d | loadkmap`)
  await load(asGerman(Buffer.from(before, 'base64')).toString('base64'))
  imageSays({ keyboard_layout: 'de' })
  await arrives(`${sentence}Grüße € ^é\`@\\yz\n`)
  imageSays({ keyboard_layout: 'us' })
  await load(before)
})

test.runIf(long)('two thousand characters of code with tabs arrive', async () => {
  const code = Array.from({ length: 60 }, (_, i) => `\tif (a_${i} < B[${i}]) { X("$y~${i}"); }\n`).join('')
  await arrives(code.slice(0, 1_000), [12, 20])
  await arrives(code.slice(1_000, 2_000), [12, 20])
})

test('an agent that is killed in the middle of a batch leaves no key pressed', async () => {
  const { folder, installationId } = bench
  const { socketPath } = stage.libvirtd
  const options = { folder, memoryFolder: memoryFolder(), installationId, socketPath, settings: folders }
  await bench.down()
  const child = new AgentProcess(options)
  await child.start()
  const lost = child.ask(
    'input.perform',
    batch([
      { type: 'type', text: '\ncat > /run/held\nbegun\n' },
      { type: 'hold', keys: ['Shift', 'AltGraph'], ms: 50_000 },
    ]),
  )
  await Promise.all([
    expect(lost).rejects.toMatchObject({ code: 'host_unreachable' }),
    waitFor('the batch to begin', async () => (await child.run(id, 'cat /run/held || true')).includes('begun'))
      // Then it holds its keys.
      .then(() => child.run(id, 'sleep 0.2'))
      .finally(() => child.kill()),
  ])
  await bench.up()
  await waitFor('small letters', async () => {
    await bench.ask('input.perform', batch([{ type: 'type', text: 'x\n' }]))
    return (await bench.run(id, 'cat /run/held')).includes('x')
  })
  expect(await bench.run(id, 'cat /run/held')).not.toContain('X')
  await bench.ask('input.perform', batch([{ type: 'key', keys: ['Control', 'd'] }]))
})

test('the port is there after a start, and again after a sleep', async () => {
  expect(await ports()).toContain('com.redhat.spice.0')
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require', guestSpec)
  await bench.tidy(fenceOf(id, 2, 3))
  expect(await ports()).toContain('com.redhat.spice.0')
})

test('a sleep that fails half-way leaves the guest awake, with its port', async () => {
  const filler = join(stage.smallFolder, 'filler')
  writeFileSync(filler, Buffer.alloc((smallMiB - 40) * 2 ** 20))
  // Believed to be small, it is begun, and meets the end of the disk half-way.
  await bench.parts.journal.note(fenceOf(id, 2, 3), { spec: { ...guestSpec, memoryMiB: 16 } })
  await expect(bench.hibernated(fenceOf(id, 2, 4))).rejects.toMatchObject({ code: 'host_disk_full' })
  rmSync(filler)
  expect(await ports()).toContain('com.redhat.spice.0')
})
