// Guarantee: `npm start -- --hosts 2` runs two real hosts that share this machine's capacity, on a folder that had one host
// before, too: that one keeps its folder and identity. A start that would leave a host with desktops out is refused. A drain
// empties one of them. A host fetches a registered image when a first wake needs it.
import { execFile } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createAdminClient, type Desktop, type DrainJson, UnavailableError } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cableAddress } from '../../scripts/testbed/cables.ts'
import { waitFor } from '../wait-for.ts'
import { typed } from './parts/command-line.ts'
import { Instance } from './parts/instance.ts'
import { type RealHost, realHosts } from './parts/real-hosts.ts'
import { serveImage } from './parts/served-image.ts'
import { expectKept, guest, leaveWitness } from './parts/witness.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const long = process.env.DORMOUSE_TEST_LONG === '1'
/** Every third is awake, the others are asleep. */
const drained = long ? 15 : 2

let instance: Instance
let alone: RealHost
let hosts: [RealHost, RealHost]
beforeAll(async () => {
  instance = await Instance.start({ DORMOUSE_AGENT_IDLE_WITHOUT_LEADER_SECS: '2' })
  alone = (await realHosts(instance))[0]!
  await instance.down()
  await instance.up(['--no-tour', '--hosts', '2'])
  hosts = (await realHosts(instance)) as [RealHost, RealHost]
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

const ping = ([from, to]: readonly RealHost[]) =>
  from!.libvirtd.exec('busybox', 'ping', '-c', '1', '-W', '1', cableAddress(to!.number)).then(
    () => true,
    () => false,
  )

test('the first host is the one that was there; both together offer what the machine has', async () => {
  expect([hosts[0].id, hosts[0].name]).toEqual([alone.id, alone.name])
  expect(hosts[1].name).toBe('host-2')
  const shown = await Promise.all(hosts.map((host) => host.shown()))
  expect(shown.map(({ state }) => state)).toEqual(['active', 'active'])
  const sum = (values: number[]) => values.reduce((all, value) => all + value, 0)
  expect(sum(shown.map(({ processors }) => processors!))).toBe(cpus().length)
  expect(sum(shown.map(({ capacity }) => capacity!.memory_mib))).toBeLessThanOrEqual((totalmem() / 1024 ** 2) * 0.8)
})

test('each agent is in its host’s network; a cable joins the hosts, and can be cut', async () => {
  const network = (pid: number) => readlinkSync(`/proc/${pid}/ns/net`)
  const agents = hosts.map(({ agent }) => network(instance.process(agent)!.pid))
  expect(agents).toEqual(hosts.map(({ pid }) => network(pid)))
  expect(new Set([...agents, network(process.pid)]).size).toBe(3)
  expect(await Promise.all([ping(hosts), ping(hosts.toReversed())])).toEqual([true, true])
  await hosts[0].cutFrom(hosts[1])
  expect(await ping(hosts.toReversed())).toBe(false)
  await hosts[0].mendTo(hosts[1])
  await waitFor(() => ping(hosts))
})

/** As ops scripts do, from a shell. */
const drainHost = async (...words: string[]) => {
  const { base_url: url, operator_key: key } = instance.local
  const env = { ...process.env, DORMOUSE_URL: url, DORMOUSE_OPERATOR_KEY: key }
  const { stdout } = await promisify(execFile)(join(root, 'scripts/drain-host'), [...words, '--json'], { env })
  return JSON.parse(stdout) as DrainJson
}

const bootOf = (desktop: Desktop) => guest(desktop, 'cat /proc/sys/kernel/random/boot_id')

test('a drain takes desktops to the other host, awake and asleep, with their memory; then this one is empty', async () => {
  const [from, to] = hosts
  const { base_url: baseUrl, operator_key: operatorKey } = instance.local
  const admin = createAdminClient({ baseUrl, operatorKey })
  await admin.cordonHost(to.id)
  const made = await Promise.all(Array.from({ length: drained }, () => instance.create()))
  const desktops = made.map((desktop, at) => ({ desktop, asleep: at % 3 !== 0 }))
  await Promise.all(made.map((desktop) => desktop.wake()))
  const boots = await Promise.all(desktops.map(({ desktop }) => bootOf(desktop)))
  const sleepers = desktops.flatMap(({ desktop, asleep }) => (asleep ? [desktop] : []))
  await Promise.all(sleepers.map((desktop) => desktop.hibernate()))
  await admin.uncordonHost(to.id)

  const plan = await drainHost(from.name, '--dry-run', '--sleeping', 'move')
  expect(plan.desktops.map(({ action }) => action).sort()).toEqual(
    desktops.map(({ asleep }) => (asleep ? 'move' : 'live_move')).sort(),
  )
  const done = await drainHost(from.id, '--sleeping', 'move', '--grace-secs', '0')
  expect(done).toMatchObject({ state: 'drained', progress: { total: drained, moved: drained } })
  console.info(`drained ${drained} in ${Date.parse(done.settled_at!) - Date.parse(done.created_at!)} ms`)
  expect([from.desktopsOnDisk(), to.desktopsOnDisk()]).toEqual([[], made.map(({ id }) => id).sort()])
  expect(await from.shown()).toMatchObject({ cordoned: true, drain_id: null, desktops: 0 })
  for (const desktop of sleepers.slice(0, 1)) await desktop.wake()
  const shown = desktops.filter(({ desktop, asleep }) => !asleep || desktop === sleepers[0])
  const now = await Promise.all(shown.map(({ desktop }) => bootOf(desktop)))
  expect(now).toEqual(shown.map((one) => boots[desktops.indexOf(one)]))
  await admin.uncordonHost(from.id)
  await Promise.all(made.slice(1).map((desktop) => desktop.destroy()))
  await made[0]!.hibernate()
})

test.runIf(long)(
  'a desktop moves to the other host awake and asleep, and wakes there while its own is cordoned',
  async () => {
    const { base_url: baseUrl, operator_key: operatorKey } = instance.local
    const admin = createAdminClient({ baseUrl, operatorKey })
    const desktop = await instance.create()
    await desktop.wake()
    const seen = await leaveWitness(desktop, 8)
    // It writes memory all the while.
    const writing = 'while :; do dd if=/dev/urandom of=/run/written bs=64k count=4; sleep 0.2; done'
    await guest(desktop, `(${writing}) > /dev/null 2>&1 < /dev/null &`)
    const hostId = async () => (await desktop.refresh()).hostId
    const isOnlyOn = async (id: string | null) => {
      expect(await hostId()).toBe(id)
      const holding = () => hosts.filter((host) => host.desktopsOnDisk().includes(desktop.id)).map((host) => host.id)
      await waitFor(() => holding().length === 1)
      expect(holding()).toEqual([id])
    }
    const moved = async (mode: 'live' | 'hibernate' = 'live') =>
      admin.waitForOperation((await admin.moveDesktop(desktop.id, { mode })).id)
    const [from, to] = hosts.toSorted((host) => (host.desktopsOnDisk().includes(desktop.id) ? -1 : 1)) as [
      RealHost,
      RealHost,
    ]
    await isOnlyOn(from.id)
    // It ends on one of the hosts, or its caller learns that it was cut.
    const running = desktop.commands.run('sleep 2; echo whole').then(
      ({ stdout }) => stdout,
      (error: unknown) => (error instanceof UnavailableError ? 'whole\n' : String(error)),
    )
    expect((await moved()).result).toMatchObject({ desktop_state: 'awake', host_id: to.id, cleanup: 'done' })
    expect(await running).toBe('whole\n')
    await expectKept(desktop, seen)
    await isOnlyOn(to.id)

    // Hibernated on the way, there and back: its guest goes on as after any wake.
    expect((await moved('hibernate')).result).toMatchObject({ host_id: from.id, moved: 'hibernated' })
    await expectKept(desktop, seen)
    await isOnlyOn(from.id)
    expect((await moved('hibernate')).result).toMatchObject({ desktop_state: 'awake', host_id: to.id })
    await expectKept(desktop, seen)

    await desktop.hibernate()
    expect((await moved()).result).toMatchObject({ desktop_state: 'hibernated', host_id: from.id, cleanup: 'done' })
    await isOnlyOn(from.id)
    await admin.cordonHost(from.id)
    await desktop.wake()
    await expectKept(desktop, seen)
    await isOnlyOn(to.id)
    await admin.uncordonHost(from.id)
    await desktop.destroy()
  },
)

test.runIf(long)(
  'the first wake of a registered image fetches it from a web server, shows how far it is, and boots it',
  async () => {
    await using served = await serveImage('fetched', '1', hosts)
    const { server } = served
    const added = await typed(instance, ['admin', 'image', 'add', 'fetched@1', '--from', server.url, '--json'])
    expect(added).toMatchObject({ code: 0 })
    const { digest, bytes } = server.ref()
    expect(JSON.parse(added.stdout)).toMatchObject({ name: 'fetched', digest, hosts: [{ state: 'absent' }, {}] })
    const { base_url: baseUrl, operator_key: operatorKey } = instance.local
    await createAdminClient({ baseUrl, operatorKey }).useImage('fetched@1')

    const halfSent = server.sendHalf('disk.qcow2')
    const desktop = await instance.create({ imageVersion: 'fetched' })
    const operation = Promise.withResolvers<string>()
    const waking = desktop.wake({ onProgress: ({ id }) => operation.resolve(id) })
    waking.catch(operation.reject)
    const id = await operation.promise
    const sendRest = await halfSent
    const progress = await waitFor(async () => {
      const { progress } = await instance.client.getOperation(id)
      return progress?.phase === 'fetching_image' && progress.done_bytes !== null && progress
    })
    expect(progress.total_bytes).toBe(bytes)
    sendRest()
    expect((await waking).result).toMatchObject({ resumedFrom: 'image' })
    expect(await guest(desktop, 'hostname')).toBe('mini\n')
    expect((await desktop.refresh()).toJSON()).toMatchObject({
      imageVersion: 'fetched',
      resolvedImageVersion: 'fetched@1',
    })
    await desktop.destroy()
  },
)

test.runIf(long)('desktops run on both hosts, and are reached as ever', async () => {
  const desktops = await Promise.all([instance.create(), instance.create()])
  const first = desktops[0].wake()
  // From then on it counts in the placement of the second one.
  await waitFor(() => hosts.some((host) => host.desktopsOnDisk().includes(desktops[0].id)))
  await Promise.all([first, desktops[1].wake()])
  expect(await Promise.all(desktops.map((desktop) => guest(desktop, 'hostname')))).toEqual(['mini\n', 'mini\n'])
  const on = (host: RealHost) => desktops.filter(({ id }) => host.desktopsOnDisk().includes(id)).length
  expect(hosts.map(on)).toEqual([1, 1])
})

test.runIf(long)(
  'a host that hears no leader hibernates what is idle by the last rules, and nothing else',
  async () => {
    const { base_url: baseUrl, operator_key: operatorKey } = instance.local
    const admin = createAdminClient({ baseUrl, operatorKey })
    const [host, other] = hosts
    await admin.cordonHost(other.id)
    const [idle, used] = await Promise.all([instance.create(), instance.create()])
    await idle.changeIdle({ idleTimeoutSecs: 2 })
    // The lock keeps the leader from it, until after the cut.
    await idle.lock('cut', { reason: 'its host is cut off first', forMs: 45_000 })
    await Promise.all([idle.wake(), used.wake()])
    const seen = await leaveWitness(idle, 8)
    const heartbeats = new Set<string | null>()
    await waitFor(async () => heartbeats.add((await host.shown()).last_heartbeat_at).size > 2)
    await host.setLoopback('down')
    const runs = async ({ id }: Desktop) => (await host.domains()).some((name) => name.endsWith(id))
    try {
      await waitFor(async () => !(await runs(idle)), 120_000)
      expect(await runs(used)).toBe(true)
      expect((await idle.refresh()).state).toBe('awake')
    } finally {
      await host.setLoopback('up')
    }
    await waitFor(async () => (await idle.refresh()).state === 'hibernated', 120_000)
    const { operations } = await instance.client.listOperations(idle.id)
    expect(operations.map(({ kind }) => kind)).toEqual(['wake'])
    await idle.changeIdle({ idleTimeoutSecs: 1_800 })
    expect((await idle.wake()).result?.resumedFrom).toBe('memory')
    await expectKept(idle, seen)
    expect((await used.refresh()).state).toBe('awake')
    expect(await guest(used, 'hostname')).toBe('mini\n')
    await admin.uncordonHost(other.id)
    await Promise.all([idle, used].map((desktop) => desktop.destroy()))
  },
)

test.runIf(long)('a start with fewer hosts is refused while the others have desktops', async () => {
  expect(hosts[1].desktopsOnDisk().length).toBeGreaterThan(0)
  await instance.down()
  await expect(instance.up(['--no-tour', '--hosts', '1'])).rejects.toThrow(/host-2 has \d+ desktop.*--hosts 2/)
})
