// A desktop on real QEMU behind the whole service, and its twin that bare libvirt drives. Started when the first subject
// needs it, and shared by all.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { Instance } from '../real/parts/instance.ts'
import { type RawGuest, twinOf } from './floors/raw-guest.ts'
import { type RawQemu, rawQemuOf } from './floors/raw-qemu.ts'

export interface Real {
  instance: Instance
  desktop: Desktop
  twin: RawGuest
  /** Another twin, in a QEMU without libvirt. */
  rawQemu(): Promise<RawQemu>
}

export class RealStage implements AsyncDisposable {
  #started: Promise<Real> | undefined
  #instance: Instance | undefined

  get(): Promise<Real> {
    this.#started ??= this.#start()
    return this.#started
  }

  async #start(): Promise<Real> {
    const instance = await Instance.start({ DORMOUSE_AGENT_TEMPLATES_MIB: '4096' })
    this.#instance = instance
    const desktop = await instance.create()
    await desktop.wake()
    // Its keys are on the disk before that is copied.
    await desktop.commands.run('true')
    await desktop.commands.run('while pidof resize2fs; do sleep 0.2; done; sync')
    const short = `/run/dormouse-${readFileSync(join(instance.dataDir, 'short-name'), 'utf8').trim()}`
    const socketPath = `${short}/libvirt/run/libvirt-sock`
    const twin = await twinOf(socketPath, desktop, short)
    return { instance, desktop, twin, rawQemu: () => rawQemuOf(socketPath, desktop.id, short) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const started = await this.#started?.catch(() => undefined)
    await started?.twin.end()
    await this.#instance?.[Symbol.asyncDispose]()
  }
}
