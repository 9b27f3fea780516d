// Guarantee: whatever is killed while a template is made, or while a desktop begins with one, leaves the truth: the same request
// succeeds afterwards, nobody was let in before the guest had an identity, and no domain, folder or disk is left over.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf, until } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { guestSpec, Stage } from './parts/agent-stage.ts'
import { Deaths, type Victim, victims } from './parts/deaths.ts'
import type { Asked } from './parts/two-hosts.ts'

const forms = { copied: 'off', mapped: 'on' } as const
const templatesMiB = 4_000
const warm = { maxMiB: 2_000, maxAgeMs: 3_600_000 }

let stage: Stage
beforeAll(async () => {
  stage = await Stage.start()
})
afterAll(async () => {
  await stage?.[Symbol.asyncDispose]()
})

type Form = keyof typeof forms

describe.each(Object.keys(forms) as Form[])('memory that is %s', (form) => {
  let bench: Bench<LibvirtDriver>
  let deaths: Deaths
  beforeAll(async () => {
    const settings = { socketsDir: join(stage.libvirtd.shortDir, 'sockets'), shareTemplates: forms[form] }
    bench = await stage.bench(form, settings, undefined, undefined, warm, templatesMiB)
    deaths = new Deaths(stage, bench, { settings, warm, templatesMiB })
  })
  afterAll(() => bench?.driver.close())
  /** What a test that failed has left fails no other. */
  afterEach(async ({ task }) => {
    if (task.result?.state !== 'fail') return
    await bench.crash()
    for (const { desktopId } of (await bench.ask('host.inventory', { known: [] })).items) await end(desktopId)
  })

  const templates = () => readdirSync(join(bench.folder, 'templates'))
  const begin = (id: string, agent: Asked = bench) => {
    const source = { memory: 'allow', disk: 'make' } as const
    return agent.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec: guestSpec, source })
  }
  const byTemplate = { resumedFrom: 'image', ready: true, path: 'template' }
  const byDisk = { resumedFrom: 'disk', ready: true, path: 'boot' }
  const byBoot = { resumedFrom: 'image', ready: true, path: 'boot' }

  async function ensureTemplate(): Promise<void> {
    if (bench.parts.templates.facts.length === 0) {
      const id = newId()
      expect(await begin(id)).toEqual(byBoot)
      await end(id)
      await bench.parts.templates.settled()
    }
    expect(templates()).toHaveLength(1)
  }

  /** Nothing of it is left, nor of anything else but the template. */
  async function end(id: string): Promise<void> {
    await bench.destroyed(fenceOf(id, 9, 9))
    const files = readdirSync(bench.folder, { recursive: true, encoding: 'utf8' })
    expect(files.filter((path) => path.includes(id))).toEqual([])
    expect((await stage.domains(bench)).filter((name) => name.includes(id))).toEqual([])
  }

  const isReportedGone = (id: string) =>
    bench.said.some(
      ({ name, report }) => name === 'desktop.observed' && report.desktopId === id && report.domain === 'absent',
    )
  const isFurnished = (id: string) => bench.parts.journal.read(id)?.furnished !== false
  const nameOf = (id: string) => `mini-${id.slice(-12)}`
  const copyOf = (id: string) => join(bench.memoryFolder, id, 'template')

  describe('a first wake', () => {
    const beforeIdentity = ['before-copy', 'after-copy', 'before-resume', 'after-resume', 'after-identity']
    const points = [...beforeIdentity, 'after-done']
    // There is no QEMU yet at the first two.
    const strikes = victims.flatMap((victim) =>
      points.slice(victim === 'QEMU' ? 2 : 0).map((point) => ({ victim, point })),
    )

    /** By the same request, once more. */
    function expected(victim: Victim, point: string) {
      if (victim === 'QEMU' && ['before-resume', 'after-resume'].includes(point)) return byBoot
      // It was awake, and its process has died since.
      const wasLost =
        (victim === 'QEMU' && point.endsWith('-identity')) ||
        (point === 'after-done' && victim !== 'the agent' && victim !== 'libvirtd')
      return wasLost ? byDisk : byTemplate
    }

    test.each(strikes)('$victim dies at $point: the same wake succeeds, and no desktop was lost', async (strike) => {
      const { victim, point } = strike
      await ensureTemplate()
      const id = newId()
      const { result, code } = await deaths.during({ victim, at: `first-wake.${point}` }, (agent) => begin(id, agent))
      console.info(`${form}, ${victim}, ${point}: ${code ?? JSON.stringify(result)}`)
      if (result === undefined && beforeIdentity.includes(point)) {
        await bench.parts.watch.checkAll()
        await expect(bench.run(id, 'true')).rejects.toMatchObject({ code: 'not_awake' })
      }
      // An answer is true when it is given. What follows is reported.
      if (result !== undefined && expected(victim, point) === byDisk) await until(() => isReportedGone(id))
      if (result !== undefined && point.endsWith('-resume')) expect(result).toEqual(expected(victim, point))
      const woken = await until(() => begin(id).catch(() => undefined), 120_000)
      expect(woken).toEqual(expected(victim, point))
      // What it was told is in its memory first: a process that ends right then has not always written it.
      const names = { template: [nameOf(id)], boot: ['mini', nameOf(id)] }
      expect(names[woken.path as keyof typeof names]).toContain(await bench.run(id, 'hostname'))
      expect(await stage.domains(bench)).toHaveLength(1)
      await until(async () => {
        await bench.parts.furnishing.check()
        return isFurnished(id) && !existsSync(copyOf(id))
      })
      expect(templates()).toHaveLength(1)
      await end(id)
    })
  })

  describe('the making of a template', () => {
    const made = ['after-rename']
    const points = ['after-boot', 'after-seal', 'after-save', 'before-rename', ...made]
    // The guest has ended when it is saved.
    const strikes = victims.flatMap((victim) =>
      points.slice(0, victim === 'QEMU' ? 2 : undefined).map((point) => ({ victim, point })),
    )

    test.each(strikes)('$victim dies at $point: there is a whole template or none', async ({ victim, point }) => {
      await bench.parts.templates.removeWhile(async () => true)
      const id = newId()
      await deaths.during({ victim, at: `template.${point}`, domain: /-template-/ }, async (agent) => {
        expect(await begin(id, agent)).toEqual(byBoot)
        // Another process dies of it.
        if (agent === bench) await bench.parts.templates.settled()
      })
      await bench.parts.templates.check()
      expect((await stage.domains(bench)).filter((name) => name.includes('-template-'))).toEqual([])
      const isMade = made.includes(point) || (victim === 'libvirtd' && ['after-save', 'before-rename'].includes(point))
      expect(templates()).toHaveLength(isMade ? 1 : 0)
      expect(bench.parts.templates.facts).toHaveLength(isMade ? 1 : 0)
      await end(id)
      for (const folder of ['consoles', 'disks']) expect(readdirSync(join(bench.folder, folder))).toEqual([])
      // What failed is not tried again at once, but by the next agent.
      await bench.crash()
      if (!isMade) return
      const next = newId()
      expect(await begin(next)).toEqual(byTemplate)
      await end(next)
    })
  })
})
