// The hosts of a large installation, many to a process.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithUs } from '../../../scripts/ground/end-with-us.ts'
import { identify } from '../../../scripts/ground/processes.ts'
import { Child } from '../../crash/child.ts'
import { fastFolder } from '../../setup/fast-folder.ts'
import { waitFor } from '../../wait-for.ts'
import { type Service, thisCheckout } from '../service.ts'
import type { FleetOrders } from './fleet-process.ts'

const hostsPerProcess = 250
const startMs = 300_000

export interface Fleet {
  /** Removes the hosts' folders, once their processes have ended. */
  remove(): void
}

/**
 * Adds so many simulated hosts to the service and waits until all are linked. Their folders are in memory: in real life
 * each has a disk of its own.
 */
export async function addFleet(service: Service, count: number): Promise<Fleet> {
  const folder = mkdtempSync(join(fastFolder(), 'dormouse-fleet-'))
  // Our own end is what it waits for.
  const unbind = endWithUs(identify(process.pid)!, 'SIGKILL', folder)
  const processes = Math.max(Math.ceil(count / hostsPerProcess), Math.min(2, count))
  const ready: string[] = []
  for (let at = 0; at < processes; at++) {
    const share = Math.floor(((at + 1) * count) / processes) - Math.floor((at * count) / processes)
    const names = Array.from({ length: share }, (_, host) => `host-${at}-${host}`)
    const hosts = await invited(service, names, folder)
    const readyFile = join(folder, `ready-${at}`)
    const orders: FleetOrders = {
      checkout: service.checkout,
      controlPlane: service.url,
      hosts,
      settings: { DORMOUSE_AGENT_MEMORY_MIB: '1048576' },
      readyFile,
    }
    const ordersFile = join(folder, `orders-${at}.json`)
    writeFileSync(ordersFile, JSON.stringify(orders))
    const child = new Child({
      checkout: thisCheckout,
      file: 'test/bench/scale/fleet-process.ts',
      args: [ordersFile],
      env: {},
      logFile: join(service.folder, `fleet-${at}.log`),
    })
    child.start()
    service.hosts.push(child)
    ready.push(readyFile)
  }
  await waitFor('the fleet to start', () => ready.every((file) => existsSync(file)), startMs)
  await service.ready(count)
  return {
    remove: () => {
      unbind()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Invitations for these hosts, a few requests at once. */
async function invited(service: Service, names: string[], folder: string): Promise<FleetOrders['hosts']> {
  const hosts: FleetOrders['hosts'] = []
  const left = [...names]
  const invite = async () => {
    for (let name = left.shift(); name; name = left.shift()) {
      const { token } = await service.admin.inviteHost({ name })
      hosts.push({ name, token, stateDir: join(folder, name) })
    }
  }
  await Promise.all(Array.from({ length: 8 }, invite))
  return hosts
}
