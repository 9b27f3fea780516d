// Guarantee: `npm start -- --hosts 2` runs two real hosts that share this machine's capacity, on a folder that had one host
// before, too: that one keeps its folder and identity. A start that would leave a host with desktops out is refused.
import { readlinkSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cableAddress } from '../../scripts/ground/cables.ts'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'
import { type RealHost, realHosts } from './parts/real-hosts.ts'
import { guest } from './parts/witness.ts'

let instance: Instance
let alone: RealHost
let hosts: [RealHost, RealHost]
beforeAll(async () => {
  instance = await Instance.start()
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

test('desktops run on both hosts, and are reached as ever; a host with desktops is not left out', async () => {
  const desktops = await Promise.all([instance.create(), instance.create()])
  const first = desktops[0].wake()
  // From then on it counts where the second one is placed.
  await waitFor(() => hosts.some((host) => host.desktopsOnDisk().length > 0))
  await Promise.all([first, desktops[1].wake()])
  expect(await Promise.all(desktops.map((desktop) => guest(desktop, 'hostname')))).toEqual(['mini\n', 'mini\n'])
  expect(hosts.map((host) => host.desktopsOnDisk().length)).toEqual([1, 1])
  await instance.down()
  await expect(instance.up(['--no-tour', '--hosts', '1'])).rejects.toThrow(/host-2 has 1 desktop .*--hosts 2/)
})
