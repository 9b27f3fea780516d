// Guarantee: a guest on a NAT network has the new host's address after a move, awake or asleep, and uses its network.
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { TestMove } from '@dormouse/agent/testing/move.ts'
import { type MoveKind, newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cableAddress, layCables } from '../../scripts/testbed/cables.ts'
import { waitFor } from '../wait-for.ts'
import { AgentProcess } from './parts/agent-process.ts'
import { guestSpec, Stage } from './parts/agent-stage.ts'
import { succeeds } from './parts/two-hosts.ts'

const id = newId()
let stages: Stage[] = []
let agents: AgentProcess[] = []
beforeAll(async () => {
  stages = await Promise.all([Stage.start(), Stage.start()])
  const pids = stages.map(({ libvirtd }) => libvirtd.pid)
  await layCables(pids.map((pid, at) => ({ number: at + 1, pid })))
  const installationId = newId()
  agents = stages.map(({ libvirtd: { shortDir, socketPath, pid } }, at) => {
    const settings = { network: 'nat', networkPrefix: `10.81.${at + 1}` } as const
    const listen = { host: cableAddress(at + 1), port: 7443 }
    return new AgentProcess({
      folder: `${shortDir}/nat`,
      socketPath,
      installationId,
      settings,
      listen,
      networkOf: pid,
    })
  })
  await Promise.all(agents.map((agent) => agent.start()))
  await wake(agents[0]!, 'allow', 'make')
})
afterAll(async () => {
  for (const agent of agents) await agent.kill()
  for (const stage of stages) await stage[Symbol.asyncDispose]()
})

let turn = 0
const nextTurn = () => {
  turn += 10
  return turn
}

function wake(agent: AgentProcess, memory: 'allow' | 'require', disk: 'make' | 'require') {
  const fence = fenceOf(id, 1, nextTurn())
  return agent.ask('desktop.ensureAwake', { fence, spec: guestSpec, source: { memory, disk } })
}

/** Its guest has an address of that host alone, and reaches its gateway. */
async function onNetworkOf(host: 0 | 1): Promise<boolean> {
  const prefix = `10.81.${host + 1}`
  const addresses = await agents[host]!.run(id, 'ip -4 -o addr show dev eth0; ip route')
  if (!addresses.includes(`inet ${prefix}.`) || addresses.includes(`10.81.${2 - host}.`)) return false
  return succeeds(
    agents[host]!.run(id, `ping -c 1 -W 2 ${prefix}.1`).then((said) => expect(said).toContain('1 packets received')),
  )
}

test.each<MoveKind>(['live', 'cold'])('a %s move', async (kind) => {
  const [from, to] = kind === 'live' ? ([0, 1] as const) : ([1, 0] as const)
  await waitFor(() => onNetworkOf(from), 60_000)
  if (kind === 'cold') await agents[from]!.ask('desktop.ensureHibernated', { fence: fenceOf(id, 1, nextTurn()) })
  const options = { desktopId: id, kind, generation: 1, turn: nextTurn(), spec: guestSpec }
  const move = new TestMove({ from: agents[from]!, to: agents[to]!, ...options })
  expect(await move.check()).toBeNull()
  await move.whole()
  if (kind === 'cold') await wake(agents[to]!, 'require', 'require')
  const started = performance.now()
  await waitFor(() => onNetworkOf(to).catch(() => false), 60_000)
  console.info(`on the network ${Math.round(performance.now() - started)} ms after a ${kind} move`)
})
