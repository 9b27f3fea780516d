/** Storage pools and their volumes. Sizes are bytes, as bigint: a sparse volume may exceed 2^53. */
import type { Calls } from './calls.ts'
import { poolState } from './constants.ts'
import { isLibvirtError } from './errors.ts'
import type { PoolRef, VolumeRef } from './protocol.ts'
import { nameOf } from './values.ts'

async function unless<T>(code: 'noStoragePool' | 'noStorageVol', answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isLibvirtError(error, code)) return undefined
    throw error
  }
}

/** A volume, by its pool and name. */
export class Volume {
  readonly #calls: Calls
  readonly #ref: VolumeRef

  constructor(calls: Calls, ref: VolumeRef) {
    this.#calls = calls
    this.#ref = ref
  }

  async xml(): Promise<string> {
    return (await this.#calls.call('control', 'storageVolGetXMLDesc', { volume: this.#ref, flags: 0 })).xml
  }

  async delete(): Promise<void> {
    await this.#calls.call('operations', 'storageVolDelete', { volume: this.#ref, flags: 0 })
  }
}

/** A storage pool, by its UUID. */
export class Pool {
  readonly #calls: Calls
  readonly name: string
  readonly uuid: string
  readonly volumes: Volumes

  constructor(calls: Calls, ref: PoolRef) {
    this.#calls = calls
    this.name = ref.name
    this.uuid = ref.uuid
    this.volumes = new Volumes(calls, ref)
  }

  get ref(): PoolRef {
    return { name: this.name, uuid: this.uuid }
  }

  /** Starts it. Its folder must exist. */
  async create(): Promise<void> {
    await this.#calls.call('operations', 'storagePoolCreate', { pool: this.ref, flags: 0 })
  }

  /** Rescans its contents. */
  async refresh(): Promise<void> {
    await this.#calls.call('operations', 'storagePoolRefresh', { pool: this.ref, flags: 0 })
  }

  async info(): Promise<{
    state: keyof typeof poolState | 'unknown'
    capacityBytes: bigint
    allocationBytes: bigint
    availableBytes: bigint
  }> {
    const info = await this.#calls.call('control', 'storagePoolGetInfo', { pool: this.ref })
    return {
      state: nameOf(poolState, info.state),
      capacityBytes: info.capacity,
      allocationBytes: info.allocation,
      availableBytes: info.available,
    }
  }

  async xml(): Promise<string> {
    return (await this.#calls.call('control', 'storagePoolGetXMLDesc', { pool: this.ref, flags: 0 })).xml
  }

  async setAutostart(autostart: boolean): Promise<void> {
    await this.#calls.call('control', 'storagePoolSetAutostart', { pool: this.ref, autostart })
  }
}

/** The volumes of one pool. */
export class Volumes {
  readonly #calls: Calls
  readonly #pool: PoolRef

  constructor(calls: Calls, pool: PoolRef) {
    this.#calls = calls
    this.#pool = pool
  }

  /** The volume with that name, or undefined if there is none. */
  async lookup(name: string): Promise<Volume | undefined> {
    const args = { pool: this.#pool, name }
    const answer = await unless('noStorageVol', this.#calls.call('control', 'storageVolLookupByName', args))
    return answer && new Volume(this.#calls, answer.volume)
  }

  /** Creates a volume; `flags` of `volumeCreateFlag`. */
  async create(xml: string, flags = 0): Promise<Volume> {
    const args = { pool: this.#pool, xml, flags }
    return new Volume(this.#calls, (await this.#calls.call('operations', 'storageVolCreateXML', args)).volume)
  }
}

/** The storage pools of one host. */
export class Pools {
  readonly #calls: Calls

  constructor(calls: Calls) {
    this.#calls = calls
  }

  async list(flags = 0): Promise<Pool[]> {
    const { pools } = await this.#calls.call('control', 'connectListAllStoragePools', { wantResults: 1, flags })
    return pools.map((pool) => new Pool(this.#calls, pool))
  }

  /** The pool with that name, or undefined if there is none. */
  async lookup(name: string): Promise<Pool | undefined> {
    const answer = await unless('noStoragePool', this.#calls.call('control', 'storagePoolLookupByName', { name }))
    return answer && new Pool(this.#calls, answer.pool)
  }

  async define(xml: string): Promise<Pool> {
    const { pool } = await this.#calls.call('control', 'storagePoolDefineXML', { xml, flags: 0 })
    return new Pool(this.#calls, pool)
  }
}
