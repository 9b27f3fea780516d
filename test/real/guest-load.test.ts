// Guarantee: on real guests, many transfers and commands at once on one desktop all
// succeed, and none of them holds up the others for long.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GuestStage, md5 } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const mib = 1024 * 1024
const many = 50
const desktops = 20

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start({ DORMOUSE_AGENT_PROCESSORS: '16' })
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

/** How long a command takes there, in ms. */
async function took(stage: GuestStage): Promise<number> {
  const began = performance.now()
  expect(await stage.run('echo beside')).toBe('beside\n')
  return performance.now() - began
}
const longest = (timesMs: number[]) => Math.round(Math.max(...timesMs))

describe('in a guest', () => {
  let stage: GuestStage
  let neighbour: GuestStage
  beforeAll(async () => {
    stage = await GuestStage.awake(instance)
    neighbour = await GuestStage.awake(instance)
  })
  afterAll(async () => {
    await stage?.desktop.destroy()
    await neighbour?.desktop.destroy()
  })

  test(`${many} transfers at once arrive, in and out, and a command finds room beside them, there and on a neighbour`, async () => {
    const files = Array.from({ length: many }, (_, i) => ({
      path: `/run/many/${i % 8}`,
      bytes: randomBytes(8 * mib),
    }))
    await stage.run('mkdir -p /run/many && mount -t tmpfs -o size=160m tmpfs /run/many')
    let done = 0
    const moving = files.map(async ({ path, bytes }, i) => {
      expect(await stage.put(`${path}.${i % 2}`, bytes)).toMatchObject({ size: bytes.length })
      done++
    })
    const beside: number[] = []
    const nextDoor: number[] = []
    while (done < many / 2) {
      beside.push(await took(stage))
      nextDoor.push(await took(neighbour))
    }
    await Promise.all(moving)
    console.info(
      `${beside.length} commands beside ${done} writes, longest ${longest(beside)} ms; next door ${longest(nextDoor)} ms`,
    )
    const kept = (await stage.run('cd /run/many; md5sum *')).trim().split('\n')
    const written = new Set(files.map(({ bytes }) => md5(bytes)))
    expect(kept.filter((line) => !written.has(line.slice(0, 32)))).toEqual([])
    const names = kept.map((line) => line.slice(34))
    const read = await Promise.all(
      Array.from({ length: many }, (_, i) => stage.get(`/run/many/${names[i % names.length]}`)),
    )
    expect(read.filter((bytes) => !written.has(md5(bytes)))).toEqual([])
    await stage.run('umount /run/many')
  })

  test('50 commands at once keep to themselves', async () => {
    const asked = Array.from({ length: many }, (_, i) => stage.exec(`echo ${i}; echo e${i} >&2; exit ${i}`))
    const answers = (await Promise.all(asked)).map(({ stdout, stderr, exit_code }) => [stdout, stderr, exit_code])
    expect(answers).toEqual(Array.from({ length: many }, (_, i) => [`${i}\n`, `e${i}\n`, i]))
  })
})

test(`${desktops} desktops at once on one host wake, run commands and move files, each its own`, async () => {
  const stages = await Promise.all(Array.from({ length: desktops }, () => GuestStage.awake(instance)))
  const moved = stages.map(async (stage) => {
    const bytes = randomBytes(mib / 4)
    await stage.put('/srv/own', bytes)
    const [told, read] = await Promise.all([stage.run('md5sum </srv/own'), stage.get('/srv/own')])
    expect([told.slice(0, 32), md5(read)]).toEqual([md5(bytes), md5(bytes)])
  })
  await Promise.all(moved)
  await Promise.all(stages.map(({ desktop }) => desktop.destroy()))
})
