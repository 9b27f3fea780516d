// A desktop of an agent under test, and what it must keep. It counts its generations and turns, as a control plane does.
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { type Fence, newId, type WakePath } from '@dormouse/contract'
import { expect } from 'vitest'
import { guestSpec, leaveWitness, lookAt, type Witness } from './agent-stage.ts'

export class KeptDesktop {
  readonly bench: Bench<LibvirtDriver>
  readonly id = newId()
  #generation = 0
  #turn = 0
  #before: Witness | undefined

  private constructor(bench: Bench<LibvirtDriver>) {
    this.bench = bench
  }

  /** Booted from the image, with this much random memory. */
  static async boot(bench: Bench<LibvirtDriver>, memoryMiB: number): Promise<KeptDesktop> {
    const desktop = new KeptDesktop(bench)
    const woken = await bench.awake(desktop.nextLife(), 'allow', 'make', guestSpec)
    expect(woken).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
    await desktop.leaveWitness(memoryMiB)
    return desktop
  }

  get before(): Witness {
    if (!this.#before) throw new Error(`desktop ${this.id} has nothing to keep`)
    return this.#before
  }

  /** The fence of the last command. */
  get fence(): Fence {
    return fenceOf(this.id, this.#generation, this.#turn)
  }

  /** The fence of the next command. */
  nextTurn(): Fence {
    this.#turn++
    return this.fence
  }

  /** The fence of the next wake. */
  nextLife(): Fence {
    this.#generation++
    return this.nextTurn()
  }

  async leaveWitness(memoryMiB: number): Promise<void> {
    this.#before = await leaveWitness(this.bench, this.id, memoryMiB)
  }

  /** Wakes from saved memory, as a new generation. */
  async wake(path: WakePath = 'restore'): Promise<void> {
    const woken = await this.bench.awake(this.nextLife(), 'require', 'require', guestSpec)
    expect(woken).toMatchObject({ resumedFrom: 'memory', ready: true, path })
  }

  /** Its memory and its boot are those from before, and the counter has gone on. */
  async expectKept(): Promise<void> {
    const { bootId, memoryHash, counter } = this.before
    const after = await lookAt(this.bench, this.id)
    expect(after).toMatchObject({ bootId, memoryHash })
    expect(after.counter).toBeGreaterThan(counter)
  }
}
