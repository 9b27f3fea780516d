// Guarantee: whatever is killed at whatever step of a warm sleep, of a warm wake, or of the end of a copy, the desktop goes on with
// its memory, or its loss is named and its disk is whole. The loss of a process that sleeps costs nothing.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, until } from '@dormouse/agent/testing/bench.ts'
import type { Fence, WakePath } from '@dormouse/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { guestSpec, Stage } from './parts/agent-stage.ts'
import { Deaths, type Victim, victims } from './parts/deaths.ts'
import { KeptDesktop } from './parts/kept-desktop.ts'
import type { Asked } from './parts/two-hosts.ts'

const warm = { maxMiB: 2_000, maxAgeMs: 3_600_000 }

let stage: Stage
let bench: Bench<LibvirtDriver>
let deaths: Deaths
let desktop: KeptDesktop

beforeAll(async () => {
  stage = await Stage.start()
  const settings = { socketsDir: join(stage.libvirtd.shortDir, 'sockets') }
  bench = await stage.bench('warm', settings, undefined, undefined, warm)
  deaths = new Deaths(stage, bench, { settings, warm })
  desktop = await KeptDesktop.boot(bench, 16)
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

/** Awake, with the memory that is looked for afterwards. */
beforeEach(async () => {
  if ((await bench.driver.domain(desktop.id))?.state === 'running') return
  await bench.awake(desktop.nextLife(), 'require', 'require', guestSpec)
})

const hibernate = (fence: Fence, agent: Asked = bench) => agent.ask('desktop.ensureHibernated', { fence })
const wake = (fence: Fence, agent: Asked = bench) =>
  agent.ask('desktop.ensureAwake', { fence, spec: guestSpec, source: { memory: 'require', disk: 'require' } })
const untilDone = <T>(work: () => Promise<T>) => until(() => work().catch(() => undefined), 60_000)

/** The guest goes on by that path, or its memory is lost: then the wake says so, and it boots from its disk. */
async function expectWakes(fence: Fence, after: WakePath | 'lost'): Promise<void> {
  if (after !== 'lost') {
    expect(await untilDone(() => wake(fence))).toMatchObject({ resumedFrom: 'memory', ready: true, path: after })
    await desktop.expectKept()
  } else {
    const refusal = () => wake(fence).then(String, ({ code }) => /^memory_/.test(code))
    expect(await until(refusal)).toBe(true)
    const woken = await bench.awake(desktop.nextLife(), 'discard', 'require', guestSpec)
    expect(woken).toMatchObject({ resumedFrom: 'disk', ready: true, path: 'boot' })
    expect(await bench.run(desktop.id, 'cat /root/note')).toBe('kept')
    await desktop.leaveWitness(16)
  }
  expect(await stage.domains(bench)).toHaveLength(1)
  await bench.tidy(desktop.fence)
  expect(await bench.observe(desktop.id)).toMatchObject({ domain: 'running', memory: 'none' })
}

const everyVictim = (points: string[]) => victims.flatMap((victim) => points.map((point) => ({ victim, point })))

test.each(everyVictim(['before-save', 'after-save', 'before-complete']))(
  '$victim dies at $point of a warm sleep',
  async ({ victim, point }) => {
    const processDies = victim === 'QEMU' || victim === 'all three'
    const fence = desktop.nextTurn()
    const struck = await deaths.during({ victim, at: `hibernate.${point}` }, (agent) => hibernate(fence, agent))
    console.info(`${victim}, ${point}: ${struck.code ?? 'asleep'}`)
    const isLost = processDies && point === 'before-save'
    if (isLost) {
      expect(struck.result).toBeUndefined()
      await expect(hibernate(fence)).rejects.toMatchObject({ code: 'memory_lost' })
    } else {
      await untilDone(() => hibernate(fence))
      expect(await bench.observe(desktop.id)).toMatchObject({ domain: 'absent', memory: 'complete' })
    }
    await expectWakes(desktop.nextLife(), isLost ? 'lost' : processDies ? 'restore' : 'warm')
  },
)

test.each(victims)('%s dies while the memory is written', async (victim) => {
  const fence = desktop.nextTurn()
  const folder = join(bench.memoryFolder, desktop.id)
  const before = readdirSync(folder).length
  // Its manifest is the first file, the memory the second.
  const at = () => readdirSync(folder).length >= before + 2
  const { code } = await deaths.during({ victim, at }, (agent) => hibernate(fence, agent))
  console.info(`${victim}, while it is written: ${code ?? 'asleep'}`)
  // Written whole or not, as the moment was.
  const { memory } = await bench.observe(desktop.id)
  const isThere = (await bench.driver.domain(desktop.id)) !== undefined || memory === 'complete'
  if (!isThere) return expectWakes(desktop.nextLife(), 'lost')
  await untilDone(() => hibernate(fence))
  const { warm: isWarm } = await bench.observe(desktop.id)
  await expectWakes(desktop.nextLife(), isWarm ? 'warm' : 'restore')
})

test.each(everyVictim(['before-mark', 'after-mark', 'after-resume']))(
  '$victim dies at $point of a warm wake',
  async ({ victim, point }) => {
    await hibernate(desktop.nextTurn())
    const fence = desktop.nextLife()
    const { code } = await deaths.during({ victim, at: `wake.${point}` }, (agent) => wake(fence, agent))
    console.info(`${victim}, ${point}: ${code ?? 'awake'}`)
    await expectWakes(fence, afterWake(victim, point))
  },
)

/** The saved memory counts until it is marked spent; from then on it is the process that counts. */
function afterWake(victim: Victim, point: string): WakePath | 'lost' {
  if (victim === 'the agent' || victim === 'libvirtd') return 'warm'
  return victim === 'all three' && point === 'before-mark' ? 'restore' : 'lost'
}

test.each(everyVictim(['before-drop', 'after-drop']))('$victim dies at $point of a copy', async ({ victim, point }) => {
  await hibernate(desktop.nextTurn())
  await deaths.during({ victim, at: `warm.${point}` }, (agent) => agent.ask('host.dropWarmCopies', {}))
  const { warm: isWarm } = await bench.observe(desktop.id)
  if (victim === 'QEMU' || victim === 'all three' || point === 'after-drop') expect(isWarm).toBeFalsy()
  await expectWakes(desktop.nextLife(), isWarm ? 'warm' : 'restore')
})

test.each(victims)('%s dies while the desktop is warm', async (victim) => {
  const fence = desktop.nextTurn()
  const { code } = await deaths.during({ victim }, (agent) => hibernate(fence, agent))
  expect(code).toBeUndefined()
  const processDies = victim === 'QEMU' || victim === 'all three'
  await expectWakes(desktop.nextLife(), processDies ? 'restore' : 'warm')
})

test('the disk of a desktop that went through all of this is without a fault', async () => {
  await hibernate(desktop.nextTurn())
  await bench.parts.warm.dropAll()
  await stage.checkDisk(bench, desktop.id)
})
