// libvirt's own live migration between two real hosts, as `virsh migrate` does it over TCP: the floor of live moves. It ends
// where it began, so that the agents notice nothing.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { createLog } from '@dormouse/process'
import { cableAddress, layCables } from '../../../scripts/testbed/cables.ts'
import { run } from '../../../scripts/testbed/processes.ts'
import { guestSpec, settingsOf } from '../../real/parts/agent-stage.ts'
import type { TwoHosts } from '../../real/parts/two-hosts.ts'

/** Milliseconds from the guest's pause, whoever pauses it, to its resume on the other host. */
export class Standstill implements Disposable {
  readonly #hosts: readonly [LibvirtHost, LibvirtHost]
  #pausedAt = 0
  #ms = 0

  private constructor(hosts: readonly [LibvirtHost, LibvirtHost]) {
    this.#hosts = hosts
    for (const host of hosts)
      host.on('event', (event) => {
        if (event.type !== 'lifecycle') return
        // The host that it comes to reports a pause, too.
        if (event.event === 'suspended') this.#pausedAt ||= performance.now()
        else if (event.event === 'resumed' && this.#pausedAt > 0) this.#ms = performance.now() - this.#pausedAt
      })
  }

  static async between({ stages }: TwoHosts): Promise<Standstill> {
    const open = ({ socketPath }: { socketPath: string }) => LibvirtHost.open({ socketPath })
    return new Standstill(await Promise.all([open(stages[0].libvirtd), open(stages[1].libvirtd)]))
  }

  async of(work: () => Promise<unknown>): Promise<{ ms: number; standstillMs: number }> {
    this.#pausedAt = 0
    this.#ms = Number.NaN
    const began = performance.now()
    await work()
    const ms = performance.now() - began
    // Events have a connection of their own, and may come a little later.
    await this.#hosts[0].nodeInfo()
    return { ms, standstillMs: this.#ms }
  }

  [Symbol.dispose](): void {
    for (const host of this.#hosts) host.close()
  }
}

export class VirshMigrate implements AsyncDisposable {
  readonly #hosts: TwoHosts
  /** They make and remove disks; the agents have drivers of their own. */
  readonly #drivers: readonly [LibvirtDriver, LibvirtDriver]

  private constructor(hosts: TwoHosts, drivers: readonly [LibvirtDriver, LibvirtDriver]) {
    this.#hosts = hosts
    this.#drivers = drivers
  }

  static async between(hosts: TwoHosts): Promise<VirshMigrate> {
    const { stages, home, away } = hosts
    await layCables(stages.map(({ libvirtd: { pid } }, at) => ({ number: at + 1, pid })))
    const log = createLog({ name: 'virsh', level: 'silent' })
    const open = async (at: 0 | 1, { folder, installationId }: TwoHosts['home']) => {
      const driver = new LibvirtDriver(settingsOf(folder, stages[at].libvirtd.socketPath), log)
      await driver.open(installationId)
      return driver
    }
    return new VirshMigrate(hosts, await Promise.all([open(0, home), open(1, away)]))
  }

  /**
   * What it needs on the other host: a new disk, and the domain's XML with that host's paths. With `paused`, the guest is paused
   * before anything is sent, and resumed on the other host.
   */
  async prepare(to: 0 | 1, { paused = false } = {}): Promise<() => Promise<unknown>> {
    const { stages, id } = this.#hosts
    const [old, next] = [stages[1 - to]!.libvirtd, stages[to].libvirtd]
    const driver = this.#drivers[to]
    await driver.removeDisk(id)
    await driver.makeDisk(id, guestSpec)
    const uri = (socket: string) => `qemu+unix:///system?socket=${socket}`
    const from = uri(old.socketPath)
    const xml = await run('virsh', ['-c', from, 'dumpxml', '--migratable', id])
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-virsh-'))
    const file = join(folder, 'to.xml')
    writeFileSync(file, xml.replaceAll(old.shortDir, next.shortDir))
    const address = cableAddress(to + 1)
    const how = ['--live', '--copy-storage-inc', '--migrateuri', `tcp://${address}`, '--listen-address', address]
    const args = ['-c', from, 'migrate', ...how, '--xml', file]
    return async () => {
      if (paused) await run('virsh', ['-c', from, 'suspend', id])
      await run('virsh', [...args, id, uri(next.socketPath)])
      if (paused) await run('virsh', ['-c', uri(next.socketPath), 'resume', id])
      rmSync(folder, { recursive: true })
    }
  }

  /** After it has come back, the other host has nothing of it. */
  async tidy(): Promise<void> {
    await this.#drivers[1].removeDisk(this.#hosts.id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const driver of this.#drivers) await driver.close()
  }
}
