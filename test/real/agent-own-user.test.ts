// Guarantee: if QEMU runs as a user of its own, as on the distribution's hosts, an agent with no more rights than its unit gives
// it keeps desktops: they boot, sleep warm and cold, and begin with templates of both forms. What they are made of is closed to
// other users.
import { chownSync, cpSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { domainName } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import type { Share } from '@dormouse/agent/driver/libvirt/shared-memory.ts'
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { qemuUser } from '../../scripts/testbed/libvirtd.ts'
import { AgentProcess } from './parts/agent-process.ts'
import { guestSpec, leaveWitness, lookAt, Stage } from './parts/agent-stage.ts'

const unit = readFileSync(new URL('../../infra/systemd/dormouse-agent.service', import.meta.url), 'utf8')
/** A template is there a moment before the agent that makes it uses it. */
const tries = 5

let stage: Stage
beforeAll(async () => {
  stage = await Stage.start({ ownUser: true })
})
afterAll(() => stage?.[Symbol.asyncDispose]())

/** The words that start a program with the capabilities of the agent's unit. */
function asUnit(): string[] {
  const names = /^CapabilityBoundingSet=(.*)$/m.exec(unit)![1]!.split(' ')
  const set = names.map((name) => `+${name.replace('CAP_', '').toLowerCase()}`)
  return ['setpriv', `--bounding-set=-all,${set.join(',')}`, '--no-new-privs', '--']
}

interface Kept {
  agent: AgentProcess
  folder: string
  installationId: string
}

/** An agent whose folders are those that its unit makes: others may pass through, and not list. */
async function started(name: string, shareTemplates: Share): Promise<Kept> {
  const folder = join(stage.libvirtd.shortDir, name)
  const [imagesDir, socketsDir] = [join(folder, 'images'), join(folder, 'sockets')]
  for (const each of [folder, imagesDir, socketsDir]) mkdirSync(each, { mode: 0o711 })
  chownSync(socketsDir, qemuUser.id, qemuUser.id)
  // libvirt gives QEMU's user these files: they are not those of other tests.
  cpSync(stage.miniImage, join(imagesDir, 'mini'), { recursive: true })
  const kept = { folder, socketPath: stage.libvirtd.socketPath, installationId: newId() }
  const settings = { imagesDir, socketsDir, shareTemplates }
  const warm = { maxMiB: 2_000, maxAgeMs: 3_600_000 }
  const agent = new AgentProcess({ ...kept, settings, warm, templatesMiB: 4_000, startedBy: asUnit() })
  await agent.start()
  return { agent, ...kept }
}

const wake = ({ agent }: Kept, desktopId: string, turn: number) =>
  agent.ask('desktop.ensureAwake', {
    fence: fenceOf(desktopId, 1, turn),
    spec: guestSpec,
    source: { memory: 'allow', disk: 'make' },
  })
const sleep = ({ agent }: Kept, id: string, turn: number) =>
  agent.ask('desktop.ensureHibernated', { fence: fenceOf(id, 1, turn) })
const end = ({ agent }: Kept, id: string) => agent.ask('desktop.ensureDestroyed', { fence: fenceOf(id, 9, 9) })

/** Makes a desktop that begins with the template that the agent is making. */
async function fromTemplate(kept: Kept): Promise<string> {
  for (let n = 0; n < tries; n++) {
    const names = () => readdirSync(join(kept.folder, 'templates'))
    await expect.poll(names, { timeout: 120_000 }).toEqual([expect.stringMatching(/^\w{32}$/)])
    const id = newId()
    if ((await wake(kept, id, 1)).path === 'template') return id
    await end(kept, id)
  }
  throw new Error('desktops boot although there is a template')
}

/** A file of its QEMU's in /proc. */
function ofQemu({ installationId }: Kept, desktopId: string, file: string): string {
  const root = `/proc/${stage.libvirtd.pid}/root`
  const pid = readFileSync(`${root}/run/libvirt/qemu/${domainName({ installationId, desktopId })}.pid`, 'utf8').trim()
  return readFileSync(`${root}/proc/${pid}/${file}`, 'utf8')
}

/** What others than owner and group may read or write: of everything in a folder, and of the folder itself. */
function openToOthers(folder: string): Record<string, number> {
  const paths = ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })]
  const modes = paths.map((path) => [path, statSync(join(folder, path)).mode & 0o006] as const)
  return Object.fromEntries(modes.filter(([, mode]) => mode !== 0))
}

/** It sleeps and wakes in both ways, and has kept its memory; asleep when this returns. */
async function expectSleeps(kept: Kept, id: string): Promise<void> {
  const { bootId, memoryHash } = await leaveWitness(kept.agent, id, 8)
  await sleep(kept, id, 2)
  expect(ofQemu(kept, id, 'oom_score_adj').trim()).toBe('900')
  expect(await wake(kept, id, 3)).toMatchObject({ resumedFrom: 'memory', ready: true, path: 'warm' })
  expect(ofQemu(kept, id, 'oom_score_adj').trim()).toBe('0')
  await sleep(kept, id, 4)
  await kept.agent.ask('host.dropWarmCopies', {})
  expect(await wake(kept, id, 5)).toMatchObject({ resumedFrom: 'memory', ready: true, path: 'restore' })
  expect(await lookAt(kept.agent, id)).toMatchObject({ bootId, memoryHash })
  await sleep(kept, id, 6)
}

test.each(['off', 'on'] as const)(
  'desktops live as with a QEMU that is root; templates are shared: %s',
  async (share) => {
    const kept = await started(share, share)
    const { agent, folder } = kept
    expect(readFileSync(`/proc/${agent.pid}/status`, 'utf8')).toMatch(/^CapEff:\t0{12}1003$/m)
    const booted = newId()
    expect(await wake(kept, booted, 1)).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
    const id = await fromTemplate(kept)
    expect(/\/templates\/.*\/memory\b/.test(ofQemu(kept, id, 'maps'))).toBe(share === 'on')
    for (const each of [booted, id]) {
      expect(ofQemu(kept, each, 'status')).toMatch(new RegExp(`^Uid:\\s+${qemuUser.id}\\s+${qemuUser.id}\\s`, 'm'))
      await expectSleeps(kept, each)
    }
    const [key] = readdirSync(join(folder, 'templates'))
    expect(openToOthers(join(folder, 'templates', key!))).toEqual({})
    for (const each of [booted, id]) {
      expect(statSync(join(folder, 'disks', `${each}.qcow2`)).mode & 0o077).toBe(0)
      expect(openToOthers(join(folder, 'memory', each))).toEqual({})
      await end(kept, each)
    }
    await agent.kill()
  },
)
