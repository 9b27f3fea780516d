// The hosts of a large installation, many to a process.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify } from '../../../scripts/testbed/processes.ts'
import { Child } from '../../crash/child.ts'
import { fastFolder } from '../../setup/fast-folder.ts'
import { waitFor } from '../../wait-for.ts'
import { type Service, thisCheckout } from '../service.ts'
import type { FleetHost, FleetOrders } from './fleet-process.ts'

const hostsPerProcess = 250
const startMs = 300_000

/** The processes of many hosts. Their folders are in memory: in real life each has a disk of its own. */
export class Fleet {
  readonly #service: Service
  readonly #folder: string
  readonly #unbind: () => void
  /** The address of each host's process. */
  readonly #urls = new Map<string, string>()
  #processes = 0

  constructor(service: Service) {
    this.#service = service
    this.#folder = mkdtempSync(join(fastFolder(), 'dormouse-fleet-'))
    // If this process ends, the folder is removed.
    this.#unbind = endWithUs(identify(process.pid)!, 'SIGKILL', this.#folder)
  }

  /** Adds this many simulated hosts and waits until all are linked; their names. */
  async add(prefix: string, count: number, settings: Record<string, string>): Promise<string[]> {
    const processes = Math.max(Math.ceil(count / hostsPerProcess), Math.min(2, count))
    const all = Array.from({ length: count }, (_, host) => `${prefix}-${host}`)
    const starting = Array.from({ length: processes }, (_, at) =>
      this.#start(all.slice((at * count) / processes, ((at + 1) * count) / processes), settings),
    )
    await Promise.all(starting)
    await this.#service.ready(this.#urls.size)
    return all
  }

  /** Ends these hosts and their guests at once. */
  cut(names: readonly string[]): Promise<void> {
    return this.#tell('cut', names)
  }

  /** Starts hosts again that were cut. They may not be linked yet. */
  restore(names: readonly string[]): Promise<void> {
    return this.#tell('restore', names)
  }

  /** Removes the hosts' folders, once their processes have ended. */
  remove(): void {
    this.#unbind()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #start(names: string[], settings: Record<string, string>): Promise<void> {
    const { checkout, url: controlPlane, folder, hosts: children } = this.#service
    const at = this.#processes++
    const readyFile = join(this.#folder, `ready-${at}`)
    const hosts = await this.#invite(names)
    const orders: FleetOrders = { checkout, controlPlane, hosts, settings, readyFile }
    const ordersFile = join(this.#folder, `orders-${at}.json`)
    writeFileSync(ordersFile, JSON.stringify(orders))
    const child = new Child({
      checkout: thisCheckout,
      file: 'test/bench/scale/fleet-process.ts',
      args: [ordersFile],
      env: {},
      logFile: join(folder, `fleet-${at}.log`),
    })
    child.start()
    children.push(child)
    const port = () => existsSync(readyFile) && readFileSync(readyFile, 'utf8')
    const url = `http://127.0.0.1:${await waitFor('the fleet to start', port, startMs)}`
    for (const name of names) this.#urls.set(name, url)
  }

  /** Invitations for these hosts, a few requests at once. */
  async #invite(names: readonly string[]): Promise<FleetHost[]> {
    const hosts: FleetHost[] = []
    const left = [...names]
    const invite = async () => {
      for (let name = left.shift(); name; name = left.shift()) {
        const { token } = await this.#service.admin.inviteHost({ name })
        hosts.push({ name, token, stateDir: join(this.#folder, name) })
      }
    }
    await Promise.all(Array.from({ length: 8 }, invite))
    return hosts
  }

  async #tell(what: 'cut' | 'restore', names: readonly string[]): Promise<void> {
    const byUrl = Map.groupBy(names, (name) => this.#urls.get(name)!)
    await Promise.all(
      [...byUrl].map(async ([url, of]) => {
        const { ok, status } = await fetch(`${url}/${what}`, { method: 'POST', body: JSON.stringify(of) })
        if (!ok) throw new Error(`${what}: the fleet answered ${status}`)
      }),
    )
  }
}
