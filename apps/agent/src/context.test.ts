import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { createLog, readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from './config.ts'
import { startAgent } from './context.ts'
import { SimulatedDriver } from './driver/simulated/simulated.ts'
import { fenceOf, spec, until } from './testing/bench.ts'
import { ControlPlane } from './testing/control-plane.ts'

const silent = createLog({ name: 'test', level: 'silent' })
const source = { memory: 'allow', disk: 'make' } as const

function warnings() {
  const lines: string[] = []
  const log = createLog({ name: 'test', level: 'warn', destination: { write: (line) => void lines.push(line) } })
  return { lines, log }
}

async function stage() {
  const plane = await ControlPlane.start()
  const stateDir = await mkdtemp(join(tmpdir(), 'dormouse-agent-'))
  const agent = async (env: Record<string, string> = {}, log = silent) => {
    const config = readConfig(configSchema, {
      DORMOUSE_AGENT_CONTROL_PLANES: plane.url,
      DORMOUSE_AGENT_STATE_DIR: stateDir,
      DORMOUSE_AGENT_ENROL_TOKEN: 'good',
      DORMOUSE_AGENT_NAME: 'host-1',
      DORMOUSE_AGENT_DRIVER: 'simulated',
      DORMOUSE_AGENT_METRICS_LISTEN: 'off',
      ...env,
    })
    return startAgent({ config, log })
  }
  const dispose = async () => {
    await plane[Symbol.asyncDispose]()
    await rm(stateDir, { recursive: true, force: true })
  }
  return { plane, stateDir, agent, [Symbol.asyncDispose]: dispose }
}

test('a host enrols once, links by signing a challenge, says hello and beats', async () => {
  await using on = await stage()
  const agent = await on.agent()
  expect(agent.hostId).toBe(on.plane.hostId)
  await until(() => on.plane.heartbeats.length > 1)
  expect(on.plane.hellos[0]).toMatchObject({ installationId: on.plane.installationId, inventory: [], highestEpoch: 0 })
  expect(on.plane.hellos[0]?.facts).toMatchObject({ driver: 'simulated', images: ['mini'], ailment: null })
  expect(on.plane.proven).toBe(1)
  await agent.close()
  expect((await stat(join(on.stateDir, 'identity.json'))).mode & 0o777).toBe(0o600)
  const key = await readFile(join(on.stateDir, 'identity.json'), 'utf8')
  const again = await on.agent({ DORMOUSE_AGENT_ENROL_TOKEN: '' })
  await until(() => on.plane.linked)
  expect(await readFile(join(on.stateDir, 'identity.json'), 'utf8')).toBe(key)
  await again.close()
})

const elsewhere = 'http://0.0.0.0:1'

test('plain HTTP to another machine is refused with the remedy, unless it is allowed', async () => {
  await using on = await stage()
  const env = { DORMOUSE_AGENT_CONTROL_PLANES: elsewhere }
  await expect(on.agent(env)).rejects.toThrow(/plain HTTP to another machine.*DORMOUSE_AGENT_ALLOW_HTTP=true/)
  on.plane.replicas = [on.plane.url, elsewhere]
  const { lines, log } = warnings()
  const agent = await on.agent({}, log)
  await until(() => /not dialled: plain HTTP; use https/.test(lines.join('')))
  await agent.close()
  await expect(on.agent(env)).rejects.toThrow(/plain HTTP/)
  await (await on.agent({ ...env, DORMOUSE_AGENT_ALLOW_HTTP: 'true' })).close()
})

test('an invitation that was declined stops the agent with the reason', async () => {
  await using on = await stage()
  await expect(on.agent({ DORMOUSE_AGENT_ENROL_TOKEN: 'used' })).rejects.toThrow(
    /refused the enrolment: the invitation was used before/,
  )
  await expect(on.agent({ DORMOUSE_AGENT_ENROL_TOKEN: '' })).rejects.toThrow(/dormouse admin host invite/)
})

test('commands cross the link, refusals with their code, and a running desktop is in the heartbeats', async () => {
  await using on = await stage()
  const agent = await on.agent()
  await until(() => on.plane.linked && agent.welcomed())
  const id = newId()
  expect(await on.plane.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec, source })).toMatchObject({
    resumedFrom: 'image',
    ready: true,
    path: 'boot',
  })
  await until(() => on.plane.heartbeats.at(-1)?.running.some(({ desktopId }) => desktopId === id))
  await expect(on.plane.ask('desktop.ensureHibernated', { fence: fenceOf(id, 0, 9) })).rejects.toMatchObject({
    code: 'stale_turn',
  })
  await agent.close()
})

test('after a lost link and after a killed agent the next hello tells what is there', async () => {
  await using on = await stage()
  const agent = await on.agent()
  await until(() => on.plane.linked && agent.welcomed())
  const id = newId()
  await on.plane.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec, source })
  await on.plane.cut()
  await until(() => on.plane.hellos.length > 1)
  expect(on.plane.hellos[1]?.inventory).toMatchObject([{ desktopId: id, domain: 'running', generation: 1, turn: 1 }])
  expect(on.plane.hellos[1]?.highestEpoch).toBe(1)
  await agent.kill()
  const next = await on.agent()
  await until(() => on.plane.hellos.length > 2)
  expect(on.plane.hellos[2]?.inventory).toMatchObject([{ desktopId: id, domain: 'running', disk: true }])
  await next.close()
})

test('a replica that still beats keeps its link, though another says that it is gone; one that is gone loses it', async () => {
  await using on = await stage()
  const agent = await on.agent()
  await until(() => on.plane.linked)
  const second = await ControlPlane.start(on.plane)
  second.replicas = on.plane.replicas = [on.plane.url, second.url]
  await until(() => second.heartbeats.length > 0)
  on.plane.replicas = [on.plane.url]
  const heard = on.plane.heartbeats.length
  await until(() => on.plane.heartbeats.length > heard + 3)
  expect(second.hellos).toHaveLength(1)
  expect(agent.welcomed()).toBe(2)
  await second[Symbol.asyncDispose]()
  await until(() => agent.welcomed() === 1)
  await agent.close()
})

test('a guest that ends by itself is reported, and a hypervisor that does not answer hides no desktop', async () => {
  await using on = await stage()
  const agent = await on.agent()
  await until(() => on.plane.linked && agent.welcomed())
  const driver = agent.driver as SimulatedDriver
  expect(driver).toBeInstanceOf(SimulatedDriver)
  const [one, two] = [newId(), newId()]
  for (const id of [one, two]) await on.plane.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec, source })
  await until(() => on.plane.heartbeats.at(-1)?.running.length === 2)
  driver.die(one, 'crashed')
  await until(() => on.plane.reports.some(({ name }) => name === 'desktop.observed'))
  expect(on.plane.reports.find(({ name }) => name === 'desktop.observed')?.payload).toMatchObject({
    desktopId: one,
    domain: 'absent',
    reason: 'crashed',
  })
  driver.faults.down = true
  await on.plane.cut()
  await until(() => on.plane.hellos.length > 1)
  expect(on.plane.hellos[1]?.facts.ailment).toContain('does not answer')
  const stillThere = on.plane.hellos[1]?.inventory.find(({ desktopId }) => desktopId === two)
  expect(stillThere).toMatchObject({ domain: 'running', reason: expect.stringContaining('journal') })
  driver.faults.down = false
  await agent.close()
})

test('a second agent over the same folder is refused, and so is the folder of another machine', async () => {
  await using on = await stage()
  const agent = await on.agent()
  await expect(on.agent()).rejects.toThrow(/another agent uses the state folder/)
  await until(() => on.plane.linked)
  await agent.kill()
  const other = { source: '/etc/machine-id', machine: 'another' }
  await writeFile(join(on.stateDir, 'machine.json'), JSON.stringify(other))
  await expect(on.agent()).rejects.toThrow(/belongs to another machine/)
  const adopted = await on.agent({ DORMOUSE_AGENT_ADOPT: 'true' })
  expect(adopted.hostId).toBe(agent.hostId)
  await adopted.close()
})

test('an agent that could not start leaves its folder to the next', async () => {
  await using on = await stage()
  await expect(on.agent({ DORMOUSE_AGENT_ENROL_TOKEN: 'used' })).rejects.toThrow(/used before/)
  await (await on.agent()).close()
})

test('a host reports where it accepts moves, and that it accepts none by default', async () => {
  await using on = await stage()
  const agent = await on.agent()
  await until(() => on.plane.hellos.length > 0)
  expect(on.plane.hellos[0]?.facts.moveAddress).toBeNull()
  await agent.close()
  const open = await on.agent({ DORMOUSE_AGENT_MOVE_ADDRESS: '127.0.0.1:7443' })
  await until(() => on.plane.hellos.length > 1)
  expect(on.plane.hellos[1]?.facts.moveAddress).toBe('127.0.0.1:7443')
  await open.close()
  await expect(on.agent({ DORMOUSE_AGENT_MOVE_ADDRESS: '0.0.0.0:7443' })).rejects.toThrow(/DORMOUSE_AGENT_MOVE_ADDRESS/)
})
