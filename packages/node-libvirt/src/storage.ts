/** Storage pools and their volumes. Sizes are bytes, as bigint: a sparse volume may be larger than a number counts. */
import type { Readable, Writable } from 'node:stream'
import type { Calls } from './calls.ts'
import { poolState, volumeType } from './constants.ts'
import { isLibvirtError } from './errors.ts'
import type { PoolRef, VolumeRef } from './protocol.ts'
import { nameOf } from './values.ts'

/** Part of a volume; length 0 means to its end. */
export interface Range {
  offset?: bigint
  length?: bigint
}

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

  get pool(): string {
    return this.#ref.pool
  }

  get name(): string {
    return this.#ref.name
  }

  /** Unique on its host; for a file its path. */
  get key(): string {
    return this.#ref.key
  }

  get ref(): VolumeRef {
    return this.#ref
  }

  async path(): Promise<string> {
    return (await this.#calls.call('control', 'storageVolGetPath', { volume: this.#ref })).path
  }

  async info(): Promise<{
    type: keyof typeof volumeType | 'unknown'
    capacityBytes: bigint
    allocationBytes: bigint
  }> {
    const { type, capacity, allocation } = await this.#calls.call('control', 'storageVolGetInfo', { volume: this.#ref })
    return { type: nameOf(volumeType, type), capacityBytes: capacity, allocationBytes: allocation }
  }

  async xml(): Promise<string> {
    return (await this.#calls.call('control', 'storageVolGetXMLDesc', { volume: this.#ref, flags: 0 })).xml
  }

  async resize(capacityBytes: bigint, flags = 0): Promise<void> {
    await this.#calls.call('operations', 'storageVolResize', { volume: this.#ref, capacity: capacityBytes, flags })
  }

  async delete(): Promise<void> {
    await this.#calls.call('operations', 'storageVolDelete', { volume: this.#ref, flags: 0 })
  }

  /** A stream into the volume; what was written is there when it has finished. */
  upload({ offset = 0n, length = 0n }: Range = {}): Promise<Writable> {
    return this.#calls.upload('storageVolUpload', { volume: this.#ref, offset, length, flags: 0 })
  }

  /** A stream of the volume's bytes. */
  async download({ offset = 0n, length = 0n }: Range = {}): Promise<Readable> {
    return (await this.#calls.download('storageVolDownload', { volume: this.#ref, offset, length, flags: 0 })).stream
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

  /** Starts it; with `build` makes its folder first. */
  async create({ build = false } = {}): Promise<void> {
    await this.#calls.call('operations', 'storagePoolCreate', { pool: this.ref, flags: build ? 1 : 0 })
  }

  /** Makes what it lies on, such as its folder. */
  async build(): Promise<void> {
    await this.#calls.call('operations', 'storagePoolBuild', { pool: this.ref, flags: 0 })
  }

  /** Looks again at what lies in it. */
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

  /** Stops it; what lies in it stays. */
  async destroy(): Promise<void> {
    await this.#calls.call('control', 'storagePoolDestroy', { pool: this.ref })
  }

  /** Forgets the definition of a stopped pool. */
  async undefine(): Promise<void> {
    await this.#calls.call('control', 'storagePoolUndefine', { pool: this.ref })
  }

  /** Deletes what it lies on, such as its empty folder. */
  async delete(): Promise<void> {
    await this.#calls.call('operations', 'storagePoolDelete', { pool: this.ref, flags: 0 })
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

  async list(): Promise<Volume[]> {
    const args = { pool: this.#pool, wantResults: 1, flags: 0 }
    const { volumes } = await this.#calls.call('control', 'storagePoolListAllVolumes', args)
    return volumes.map((volume) => new Volume(this.#calls, volume))
  }

  /** The volume of that name, or undefined where there is none. */
  async lookup(name: string): Promise<Volume | undefined> {
    const args = { pool: this.#pool, name }
    const answer = await unless('noStorageVol', this.#calls.call('control', 'storageVolLookupByName', args))
    return answer && new Volume(this.#calls, answer.volume)
  }

  /** Makes a volume; `flags` of `volumeCreateFlag`. */
  async create(xml: string, flags = 0): Promise<Volume> {
    const args = { pool: this.#pool, xml, flags }
    return new Volume(this.#calls, (await this.#calls.call('operations', 'storageVolCreateXML', args)).volume)
  }

  /** Makes a volume with the content of another, which may lie in another pool. */
  async createFrom(xml: string, from: Volume, flags = 0): Promise<Volume> {
    const args = { pool: this.#pool, xml, from: from.ref, flags }
    return new Volume(this.#calls, (await this.#calls.call('operations', 'storageVolCreateXMLFrom', args)).volume)
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

  /** The pool of that name, or undefined where there is none. */
  async lookup(name: string): Promise<Pool | undefined> {
    const answer = await unless('noStoragePool', this.#calls.call('control', 'storagePoolLookupByName', { name }))
    return answer && new Pool(this.#calls, answer.pool)
  }

  /** The pool of that UUID, or undefined where there is none. */
  async lookupByUuid(uuid: string): Promise<Pool | undefined> {
    const answer = await unless('noStoragePool', this.#calls.call('control', 'storagePoolLookupByUUID', { uuid }))
    return answer && new Pool(this.#calls, answer.pool)
  }

  async define(xml: string): Promise<Pool> {
    const { pool } = await this.#calls.call('control', 'storagePoolDefineXML', { xml, flags: 0 })
    return new Pool(this.#calls, pool)
  }
}

/** All storage of one host. */
export class Storage {
  readonly #calls: Calls
  readonly pools: Pools

  constructor(calls: Calls) {
    this.#calls = calls
    this.pools = new Pools(calls)
  }

  /** The volume at that path of an active pool, or undefined where no pool knows it. */
  async volumeByPath(path: string): Promise<Volume | undefined> {
    const answer = await unless('noStorageVol', this.#calls.call('control', 'storageVolLookupByPath', { path }))
    return answer && new Volume(this.#calls, answer.volume)
  }
}
