// Guarantee: with few questions about its CPU, a guest has the same CPU, also one that was saved without that.
import { liveCpus, withFewCpuQuestions } from '@dormouse/agent/driver/libvirt/cpu-questions.ts'
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guestSpec, Stage } from './parts/agent-stage.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
let stage: Stage
let host: LibvirtHost
beforeAll(async () => {
  stage = await Stage.start()
  host = await LibvirtHost.open({ socketPath: stage.libvirtd.socketPath })
}, 120_000)
afterAll(async () => {
  host?.close()
  await stage?.[Symbol.asyncDispose]()
})

test.each(['pc', 'q35'])(
  'an empty domain of machine type %s has the same CPU, and nothing is left of it',
  async (machine) => {
    const plan = {
      installationId: newId(),
      type: 'qemu',
      emulator: '/usr/bin/qemu-system-x86_64',
      machine,
      cpuModel: 'qemu64',
    } as const
    const { before, after } = await liveCpus(host, plan)
    expect(before).toContain('qemu64')
    expect(after).toBe(before)
    expect((await host.domains.list()).filter(({ name }) => name.includes('cpu-check'))).toEqual([])
  },
)

test.runIf(long)('a memory that was saved with all questions is restored with few, on the same CPU', async () => {
  const id = newId()
  await using bench = await stage.bench(`cpu-${id.slice(-4)}`)
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
  const domain = (await host.domains.lookup(id))!
  const cpuOf = async () => /<cpu[\s\S]*?<\/cpu>/.exec(await domain.xml())?.[0]
  const [cpu, xml] = [await cpuOf(), await domain.xml()]
  expect(xml).toContain("<qemu:del capability='cpu-unavailable-features'/>")
  await bench.hibernated(fenceOf(id, 1, 2))
  const [image] = bench.parts.memory.list(id)
  // As the release before had saved it: without the line.
  const long = (await host.domains.saveImageXml(image!.path)).replace(
    /<qemu:capabilities>[\s\S]*<\/qemu:capabilities>/,
    '',
  )
  await host.domains.restore(image!.path, { xml: long, paused: true })
  expect(await domain.xml()).not.toContain('qemu:del')
  expect(await cpuOf()).toBe(cpu)
  const saved = `${image!.path}.long`
  await domain.save(saved)
  await host.domains.restore(saved, { xml: withFewCpuQuestions(await host.domains.saveImageXml(saved)), paused: true })
  expect(await domain.xml()).toContain('qemu:del')
  expect(await cpuOf()).toBe(cpu)
  await domain.resume()
  await bench.parts.journal.note(fenceOf(id, 1, 2), { running: true })
  expect(await bench.run(id, 'echo on')).toBe('on')
  await bench.destroyed(fenceOf(id, 1, 3))
})
