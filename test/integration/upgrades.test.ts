// Guarantee: an operator sees which release runs where. Hosts are upgraded a batch at a time; the first that is not healthy
// again stops the rest, and neither the end of a replica nor the operator's absence stops the others.
import type { HostJson, UpgradeJson, UpgradePlanJson } from '@dormouse/contract'
import type { Peer } from '@dormouse/link'
import { release } from '@dormouse/process'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'
import { modestFacts, RogueHost } from './parts/rogue-host.ts'

const [major = 0, minor = 0] = release.version.split('.').map(Number)
const later = (minors: number) => `${major}.${minor + minors}.0`
const next = later(1)

/** A host whose agent and root unit are the test's: it installs a version, restarts with it, and says so. */
class UpgradableHost {
  readonly name: string
  readonly #host: RogueHost
  #peers: Peer[] = []
  readonly #urls: string[]
  #beating: NodeJS.Timeout | undefined
  version: string = release.version
  /** How the installation goes. */
  fault: 'none' | 'apt' | 'ailment' | 'lost-desktop' | 'stays' = 'none'
  readonly asked = new Set<string>()
  items: object[] = []

  constructor(host: RogueHost, name: string, urls: string[]) {
    this.#host = host
    this.name = name
    this.#urls = urls
  }

  get id(): string {
    return this.#host.id
  }

  get #facts() {
    const ailment = this.version === next && this.fault === 'ailment' ? 'the hypervisor does not answer' : null
    return { ...modestFacts, agentVersion: this.version, upgradable: true, ailment }
  }

  async link(): Promise<void> {
    const handlers = {
      'agent.upgrade': async (asked: unknown) => this.#upgrade(asked as { upgradeId: string; version: string | null }),
      'host.inventory': async () => ({ items: this.items, digests: [] }),
    }
    // One of the replicas may be down.
    const dialled = this.#urls.map((url) => this.#host.linked({ facts: this.#facts, handlers, url }))
    this.#peers = (await Promise.allSettled(dialled)).flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
    this.#beating = setInterval(() => {
      const beat = { facts: this.#facts, running: [], activity: [] }
      for (const peer of this.#peers) peer.call('host.heartbeat', beat).catch(() => undefined)
    }, 1_000)
  }

  async #upgrade({ upgradeId, version }: { upgradeId: string; version: string | null }) {
    if (this.version === next || this.fault === 'stays') return { state: 'installed', version: next, detail: null }
    if (this.fault === 'apt') return { state: 'failed', version: null, detail: `Version ‘${next}’ was not found` }
    if (!this.asked.has(upgradeId)) {
      this.asked.add(upgradeId)
      this.version = version ?? next
      if (this.fault === 'lost-desktop') this.items = []
      void this.unlink().then(() => this.link())
    }
    return { state: 'running', version: null, detail: null }
  }

  async unlink(): Promise<void> {
    clearInterval(this.#beating)
    await Promise.all(this.#peers.map((peer) => peer.close(1000, 'restarts')))
  }
}

async function fleetOf(stack: Stack, count: number) {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', key)
  const urls = stack.replicas.map(({ url }) => url)
  const hosts = await Promise.all(
    Array.from({ length: count }, async (_, at) => {
      const name = `h${String(at).padStart(2, '0')}`
      const { token } = await stack.replica.parts.hosts.invite(name)
      stack.secrets.learn(`the invitation of ${name}`, token)
      const host = new UpgradableHost(await RogueHost.enrol(stack.url, token, name), name, urls)
      await host.link()
      return host
    }),
  )
  const admin = (method: string, path: string, body?: object) =>
    send(`${urls.at(-1)}/admin/v1/${path}`, method, { key, body })
  const ended = (id: string) =>
    waitFor(async () => {
      const seen = (await admin('GET', `upgrades/${id}`)).json as UpgradeJson
      return seen.settled_at !== null && seen
    })
  const close = () => Promise.all(hosts.map((host) => host.unlink()))
  // In the order of an upgrade.
  hosts.sort((a, b) => (a.id < b.id ? -1 : 1))
  return { hosts, admin, ended, [Symbol.asyncDispose]: async () => void (await close()) }
}

const statuses = ({ hosts }: UpgradeJson) => hosts.map(({ status }) => status)

test('each replica and each host has its release in the lists of operators', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const list = async (what: string) => (await stack.api('GET', `/admin/v1/${what}`, { key })).json[what]
  expect(await list('hosts')).toMatchObject([{ name: stack.host.name, upgradable: false, ...release }])
  const replicas = await waitFor('both replicas', async () => {
    const found = await list('replicas')
    return found.length === 2 && found
  })
  expect(replicas).toMatchObject([
    { id: stack.replica.parts.replicaId, url: stack.url, leads: true, ...release },
    { leads: false, ...release },
  ])
  const plan = (await stack.api('GET', `/admin/v1/upgrades/plan?version=${next}`, { key })).json as UpgradePlanJson
  expect(plan.steps.map((step) => /where (\S+) runs/.exec(step)?.[1])).toEqual([stack.replicas[1]!.url, stack.url])
  expect(plan.steps[1]).toContain('another replica takes over')
  expect(plan.problems).toEqual([expect.stringContaining('enable dormouse-agent-upgrade.path')])
})

test('50 hosts are upgraded in batches while the replica that began ends, and one that is behind is left out', async () => {
  await using stack = await Stack.start({ replicas: 2, hosts: 1 })
  await using fleet = await fleetOf(stack, 50)
  const { hosts, admin, ended } = fleet
  const begun = await send(`${stack.url}/admin/v1/upgrades`, 'POST', await withKey(stack, { version: next, batch: 20 }))
  expect([begun.status, begun.json.progress]).toMatchObject([202, { total: 51, skipped: 1 }])
  await waitFor('the first batch', () => hosts.filter(({ version }) => version === next).length >= 20)
  expect(hosts.filter(({ version }) => version === next)).toHaveLength(20)
  await stack.replica.stop()
  const done = await ended(begun.json.id)
  expect(done).toMatchObject({ state: 'upgraded', progress: { total: 51, upgraded: 50, skipped: 1, failed: 0 } })
  expect(hosts.every(({ asked, version }) => version === next && asked.size === 1)).toBe(true)
  expect(done.hosts.find(({ status }) => status === 'skipped')).toMatchObject({
    host_id: stack.host.id,
    reason: expect.stringContaining('dormouse-agent-upgrade.path'),
  })
  const listed = (await admin('GET', 'hosts')).json.hosts as HostJson[]
  expect(listed.filter(({ version }) => version === next)).toHaveLength(50)
  await stack.replica.start()
})

const withKey = async (stack: Stack, body: object) => ({
  key: await stack.replica.parts.principals.createOperatorKey('ops'),
  body,
})

test.each([
  ['apt', /was not found/],
  ['ailment', /not healthy again after 1 s: it reports a problem: the hypervisor/],
  ['lost-desktop', /not healthy again after 1 s: it does not know the desktop/],
  ['stays', /not healthy again after 1 s: its agent still runs \S+, not \S+/],
] as const)('a host that fails by %s stops the rest', async (fault, why) => {
  await using stack = await Stack.start({ hosts: 0 })
  await using fleet = await fleetOf(stack, 4)
  const { hosts, admin, ended } = fleet
  hosts[1]!.fault = fault
  if (fault === 'lost-desktop') await giveDesktop(stack, hosts[1]!)
  const { json } = await admin('POST', 'upgrades', { version: next, timeout_secs: 1 })
  const done = await ended(json.id)
  expect(done).toMatchObject({ state: 'failed', progress: { upgraded: 1, failed: 1, skipped: 2 } })
  expect(statuses(done)).toEqual(['upgraded', 'failed', 'skipped', 'skipped'])
  expect(done.hosts[1]!.reason).toMatch(why)
  expect(hosts[2]!.version).toBe(release.version)
})

/** A desktop that sleeps there. */
async function giveDesktop(stack: Stack, host: UpgradableHost): Promise<void> {
  const { id } = await stack.desktop()
  await stack.database.rows(`update desktops set host_id = $2, state = 'hibernated' where id = $1`, [id, host.id])
  const item = { desktopId: id, generation: 1, turn: 1, operationId: null, domain: 'absent', disk: true, reason: null }
  host.items = [{ ...item, memory: 'complete' }]
}

test('one upgrade is in progress at a time, it is cancelled between two batches, and versions too far apart are refused', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  await using fleet = await fleetOf(stack, 3)
  const { hosts, admin, ended } = fleet
  expect((await admin('POST', 'upgrades', { version: later(2) })).json).toMatchObject({ status: 409, code: 'conflict' })
  expect((await admin('POST', 'upgrades', { version: `${next};reboot` })).json).toMatchObject({
    status: 400,
    field: 'version',
  })
  hosts[0]!.fault = 'stays'
  const { json } = await admin('POST', 'upgrades', { version: next })
  expect((await admin('POST', 'upgrades', { version: next })).json.id).toBe(json.id)
  expect((await admin('POST', 'upgrades', { version: next, batch: 2 })).json).toMatchObject({ code: 'conflict' })
  await admin('POST', `upgrades/${json.id}/cancel`)
  hosts[0]!.version = next
  await hosts[0]!.unlink()
  await hosts[0]!.link()
  expect(statuses(await ended(json.id))).toEqual(['upgraded', 'skipped', 'skipped'])
  expect((await admin('GET', 'upgrades')).json.upgrades).toMatchObject([{ id: json.id, state: 'cancelled' }])
  const plan = (await admin('GET', 'upgrades/plan')).json as UpgradePlanJson
  expect([plan.target, plan.hosts.map(({ action }) => action).sort()]).toEqual([next, ['none', 'upgrade', 'upgrade']])
})
