// Two real hosts with an agent each, without a control plane, and one desktop that moves between them with a witness of its
// memory and of its disk.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import type { LibvirtSettings } from '@dormouse/agent/driver/libvirt/settings.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { TestMove } from '@dormouse/agent/testing/move.ts'
import { type MoveKind, newId } from '@dormouse/contract'
import type { Relay } from '@dormouse/control-plane/agents/relays.ts'
import { expect } from 'vitest'
import { waitFor } from '../../wait-for.ts'
import { guestSpec, leaveWitness, lookAt, Stage, type Witness } from './agent-stage.ts'

type Host = Bench<LibvirtDriver>
/** An agent in this process, or in one of its own. */
export type Asked = Pick<Host, 'ask' | 'run' | 'folder'>

interface TwoHostsOptions {
  /** Random bytes in the desktop's memory. */
  memoryMiB: number
  settings?: Partial<LibvirtSettings>
  /** The first host makes templates, in this much space. */
  templatesMiB?: number
}

export class TwoHosts {
  #id = newId()
  readonly stages: readonly [Stage, Stage]
  readonly home: Host
  readonly away: Host
  #before: Witness | undefined
  #fileHash = ''
  #turn = 10

  private constructor(stages: readonly [Stage, Stage], home: Host, away: Host) {
    this.stages = stages
    this.home = home
    this.away = away
  }

  /** The desktop is awake on `home`. */
  static async start({ memoryMiB, settings, templatesMiB }: TwoHostsOptions): Promise<TwoHosts> {
    const stages = await Promise.all([Stage.start(), Stage.start()])
    const installationId = newId()
    const named = [undefined, installationId, undefined] as const
    const home = await stages[0].bench('move', settings, ...named, templatesMiB)
    const away = await stages[1].bench('move', settings, ...named)
    const hosts = new TwoHosts(stages, home, away)
    await hosts.boot(home, memoryMiB)
    return hosts
  }

  /** The desktop's. */
  get id(): string {
    return this.#id
  }

  /** From now on the desktop is another one, awake on that host. */
  async boot(host: Asked, memoryMiB: number): Promise<void> {
    this.#id = newId()
    const { id } = this
    const source = { memory: 'allow', disk: 'make' } as const
    await host.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec: guestSpec, source })
    this.#before = await leaveWitness(host, id, memoryMiB)
    await host.run(id, 'dd if=/dev/urandom of=/root/file bs=1M count=8 2>/dev/null; sync')
    this.#fileHash = await host.run(id, 'crc32 /root/file')
  }

  nextTurn(): number {
    this.#turn += 10
    return this.#turn
  }

  move(kind: MoveKind, from: Asked = this.home, to: Asked = this.away, relay?: Relay): TestMove {
    const common = { desktopId: this.id, generation: 1, spec: guestSpec, ...(relay && { relay }) }
    return new TestMove({ from, to, kind, turn: this.nextTurn(), ...common })
  }

  /** It runs on that host, goes on, and holds what it held; nothing is on the other one. */
  async expectAt(host: Host): Promise<void> {
    await this.expectOn(host, host === this.home ? this.away : this.home)
  }

  async expectOn(host: Asked, other: Asked): Promise<void> {
    const { id } = this
    // The guest agent's connection takes a moment after a move.
    await waitFor(() => succeeds(host.run(id, 'true')), 60_000)
    const after = await lookAt(host, id)
    expect(after).toMatchObject({ bootId: this.#before!.bootId, memoryHash: this.#before!.memoryHash })
    expect(after.counter).toBeGreaterThanOrEqual(this.#before!.counter)
    await waitFor(async () => (await lookAt(host, id)).counter > after.counter, 30_000)
    // Read from the disk, not from memory.
    expect(await host.run(id, 'echo 3 >/proc/sys/vm/drop_caches; crc32 /root/file')).toBe(this.#fileHash)
    this.#before = after
    expect(filesOf(host, id).filter((path) => path.startsWith('moves'))).toEqual([])
    await this.expectNothingOn(other)
  }

  /** That host has no file, no socket and no domain of it, and says so. */
  async expectNothingOn(host: Asked): Promise<void> {
    expect((await host.ask('host.inventory', { known: [] })).items).toEqual([])
    expect(filesOf(host, this.id)).toEqual([])
    expect(await this.#stageOf(host).domains(this.home)).toEqual([])
  }

  #stageOf({ folder }: Asked): Stage {
    return this.stages.find(({ libvirtd }) => folder.startsWith(libvirtd.shortDir))!
  }

  /** The end of what its guest has written to its serial console on each host. */
  consoles(): string {
    const lines = [this.home, this.away].map(({ folder }) => {
      const file = join(folder, 'consoles', `${this.id}.log`)
      const text = existsSync(file) ? readFileSync(file, 'utf8') : 'no console'
      return `${folder}:\n${text.split('\n').slice(-40).join('\n')}`
    })
    return lines.join('\n')
  }

  hibernate(host: Asked = this.home): Promise<unknown> {
    return host.ask('desktop.ensureHibernated', { fence: fenceOf(this.id, 1, this.nextTurn()) })
  }

  /** From its memory, or not at all. */
  async wake(host: Asked = this.home): Promise<void> {
    const fence = fenceOf(this.id, 1, this.nextTurn())
    const source = { memory: 'require', disk: 'require' } as const
    const woken = await host.ask('desktop.ensureAwake', { fence, spec: guestSpec, source })
    expect(woken).toMatchObject({ resumedFrom: 'memory' })
  }

  /** From its disk, which is as it was; its memory is new. */
  async reboot(host: Asked, memoryMiB = 8): Promise<void> {
    const fence = fenceOf(this.id, 1, this.nextTurn())
    const source = { memory: 'discard', disk: 'require' } as const
    await host.ask('desktop.ensureAwake', { fence, spec: guestSpec, source })
    expect(await host.run(this.id, 'crc32 /root/file')).toBe(this.#fileHash)
    this.#before = await leaveWitness(host, this.id, memoryMiB)
  }

  /** The pid of its QEMU on that host, in that host's namespace. */
  qemuPid(host: 0 | 1): number {
    const name = `qemu/dormouse-${this.home.installationId.slice(-12)}-${this.id}.pid`
    return Number(readFileSync(`/proc/${this.stages[host].libvirtd.pid}/root/run/libvirt/${name}`, 'utf8'))
  }

  signalQemu(host: 0 | 1, signal: 'KILL' | 'STOP' | 'CONT'): Promise<unknown> {
    return this.stages[host].libvirtd.exec('/bin/kill', `-${signal}`, String(this.qemuPid(host)))
  }

  async killLibvirtd(host: 0 | 1): Promise<void> {
    const { libvirtd } = this.stages[host]
    await libvirtd.killDaemon()
    await libvirtd.restartDaemon()
  }

  /** How fast `home` sends; its agent starts again. */
  async pace(mibPerSec: number | undefined): Promise<void> {
    this.home.moves = { ...this.home.moves, mibPerSec }
    await this.home.crash()
  }

  /** How much of the move has arrived at the new host. */
  carriedBytes(): number {
    return (this.away.parts.moves.of(this.id) as { transfer?: { bytes: number } } | undefined)?.transfer?.bytes ?? 0
  }

  /** Sends slowly, and does something when some of the memory is there; the move fails, and the guest runs on by itself. */
  async failsInMidMemory(interrupt: () => unknown): Promise<void> {
    await this.pace(16)
    const move = this.move('live')
    await move.begin()
    await move.prepare()
    const sending = move.send().catch((error: unknown) => error)
    await waitFor(() => this.carriedBytes() > 20 * 1024 * 1024, 60_000)
    await interrupt()
    expect(await sending).toMatchObject({ code: expect.stringMatching(/hypervisor_failed|host_unreachable/) })
    await waitFor(
      async () => (await succeeds(move.abandon())) && (await move.keep().catch(() => '')) === 'awake',
      60_000,
    )
    await this.pace(undefined)
    await this.expectAt(this.home)
  }

  /** Its file system has no fault; then nothing of it is left. */
  async end(): Promise<void> {
    const { home, id } = this
    await home.run(id, 'sync')
    await home.driver.kill(id)
    await this.stages[0].checkDisk(home, id)
    await home.destroyed(fenceOf(id, 1, this.nextTurn()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { parts, driver } of [this.home, this.away]) {
      parts.moves.close()
      await driver.close()
      await parts.journal.close()
    }
    for (const stage of this.stages) await stage[Symbol.asyncDispose]()
  }
}

/** What is named after the desktop below the agent's folder. The folders of moves have the last part of its id. */
function filesOf({ folder }: Asked, id: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.includes(id.slice(-12)))
}

export const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  )
