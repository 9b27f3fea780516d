// libvirt's own live migration between two real hosts, as `virsh migrate` does it over TCP: the floor of live moves. It ends
// where it began, so that the agents notice nothing.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { cableAddress, layCables } from '../../../scripts/ground/cables.ts'
import { run } from '../../../scripts/ground/processes.ts'
import { guestSpec } from '../../real/parts/agent-stage.ts'
import type { TwoHosts } from '../../real/parts/two-hosts.ts'

/** Milliseconds from the pause on one host to the resume on the other, of the work's migration. */
export class Standstill implements Disposable {
  readonly #hosts: readonly [LibvirtHost, LibvirtHost]
  #pausedAt = 0
  #ms = 0

  private constructor(hosts: readonly [LibvirtHost, LibvirtHost]) {
    this.#hosts = hosts
    for (const host of hosts)
      host.on('event', (event) => {
        if (event.type !== 'lifecycle') return
        if (event.event === 'suspended' && event.detail === 'migrated') this.#pausedAt = performance.now()
        else if (event.event === 'resumed' && this.#pausedAt > 0) this.#ms = performance.now() - this.#pausedAt
      })
  }

  static async between({ stages }: TwoHosts): Promise<Standstill> {
    const open = ({ socketPath }: { socketPath: string }) => LibvirtHost.open({ socketPath })
    return new Standstill(await Promise.all([open(stages[0].libvirtd), open(stages[1].libvirtd)]))
  }

  async of(work: () => Promise<unknown>): Promise<{ ms: number; standstillMs: number }> {
    this.#pausedAt = 0
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

export class VirshMigrate {
  readonly #hosts: TwoHosts

  private constructor(hosts: TwoHosts) {
    this.#hosts = hosts
  }

  static async between(hosts: TwoHosts): Promise<VirshMigrate> {
    await layCables(hosts.stages.map(({ libvirtd: { pid } }, at) => ({ number: at + 1, pid })))
    return new VirshMigrate(hosts)
  }

  /** What it needs on the other host: a new disk, and the domain's XML with that host's paths. */
  async prepare(to: 0 | 1): Promise<() => Promise<unknown>> {
    const { stages, home, away, id } = this.#hosts
    const [old, next] = [stages[1 - to]!.libvirtd, stages[to].libvirtd]
    const { driver } = to === 0 ? home : away
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
      await run('virsh', [...args, id, uri(next.socketPath)])
      rmSync(folder, { recursive: true })
    }
  }

  /** After it has come back, the other host has nothing of it. */
  async tidy(): Promise<void> {
    await this.#hosts.away.driver.removeDisk(this.#hosts.id)
  }
}
