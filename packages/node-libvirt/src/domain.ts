/** The calls on one domain. Mutating calls run one at a time, in their order; destroy, abortJob and jobInfo skip the queue. */
import type { CallOptions, Calls } from './calls.ts'
import {
  affect,
  blockResizeFlag,
  createFlag,
  destroyFlag,
  domainState,
  jobStatsFlag,
  jobType,
  metadataType,
  pausedReason,
  runningReason,
  saveFlag,
  setTimeFlag,
  shutoffReason,
  snapshotFlag,
} from './constants.ts'
import { isLibvirtError } from './errors.ts'
import { type Migration, migrationParams } from './migration.ts'
import type { Args, DomainRef, ProcedureName, Result } from './protocol.ts'
import { flagsOf, nameOf, numberParams, textParams, type Values, valuesOf } from './values.ts'

export type DomainStateName = keyof typeof domainState | 'unknown'

export interface SaveOptions {
  /** The domain XML to keep in the image instead of the current one. Only what the host sees may differ. */
  xml?: string
  /** Whether a restore pauses the guest or runs it; by default as it was. */
  paused?: boolean
  running?: boolean
  bypassCache?: boolean
}

export interface JobInfo {
  type: keyof typeof jobType | 'unknown'
  elapsedMs: number
  remainingMs: number
  dataTotalBytes: number
  dataProcessedBytes: number
  dataRemainingBytes: number
  memTotalBytes: number
  memProcessedBytes: number
  memRemainingBytes: number
  fileTotalBytes: number
  fileProcessedBytes: number
  fileRemainingBytes: number
}

/** The reasons of each state that has reasons. */
const reasons: Partial<Record<DomainStateName, Record<string, number>>> = {
  running: runningReason,
  paused: pausedReason,
  shutoff: shutoffReason,
}

/** QEMU answers at once, unless it hangs. */
const monitorMs = 15_000

/** `saveParams` with an image format came with libvirt 11.2. */
const imageFormatSince = 11_002_000

/** A handle on a domain, by its UUID. Creating one makes no call, and the domain may not exist. */
export class Domain {
  readonly #calls: Calls
  readonly uuid: string
  readonly name: string

  constructor(calls: Calls, { uuid, name }: { uuid: string; name: string }) {
    this.#calls = calls
    this.uuid = uuid
    this.name = name
  }

  /** The domain as the protocol refers to it. The daemon finds it by its UUID, and ignores the id. */
  get ref(): DomainRef {
    return { name: this.name, uuid: this.uuid, id: -1 }
  }

  /** The daemon's view of the state. Works even if every ordinary thread of the daemon is stuck. */
  async state(): Promise<{ state: DomainStateName; reason: string }> {
    const answer = await this.#calls.call('control', 'domainGetState', { domain: this.ref, flags: 0 })
    const state = nameOf(domainState, answer.state)
    return { state, reason: nameOf(reasons[state] ?? {}, answer.reason) }
  }

  /** The domain's XML; `flags` of `xmlFlag`. */
  async xml(flags = 0): Promise<string> {
    return (await this.#calls.call('control', 'domainGetXMLDesc', { domain: this.ref, flags })).xml
  }

  /** Starts a defined domain. */
  async create(options: { paused?: boolean; bypassCache?: boolean; forceBoot?: boolean } = {}): Promise<void> {
    await this.#change('domainCreateWithFlags', { domain: this.ref, flags: flagsOf(createFlag, options) })
  }

  async suspend(): Promise<void> {
    await this.#change('domainSuspend', { domain: this.ref })
  }

  async resume(): Promise<void> {
    await this.#change('domainResume', { domain: this.ref })
  }

  /** Ends the process at once. With `graceful` it never uses force, and fails if QEMU does not end. Skips the queue. */
  async destroy(options: { graceful?: boolean } = {}): Promise<void> {
    const flags = flagsOf(destroyFlag, options)
    await this.#change('domainDestroyFlags', { domain: this.ref, flags }, { urgent: true })
  }

  /** Removes the definition; `flags` of `undefineFlag`. */
  async undefine(flags = 0): Promise<void> {
    await this.#change('domainUndefineFlags', { domain: this.ref, flags })
  }

  /** Saves the memory to a path on the host and ends the process. `imageFormat` needs libvirt 11.2. */
  async save(
    path: string,
    { imageFormat, xml, ...options }: SaveOptions & { imageFormat?: string } = {},
  ): Promise<void> {
    const flags = flagsOf(saveFlag, options)
    if (imageFormat === undefined) {
      await this.#change('domainSaveFlags', { domain: this.ref, path, xml, flags })
      return
    }
    const { version } = await this.#calls.call('control', 'connectGetLibVersion', {})
    if (version < imageFormatSince) throw new Error('imageFormat needs libvirt 11.2 or newer')
    const params = textParams({ file: path, dxml: xml, image_format: imageFormat })
    await this.#change('domainSaveParams', { domain: this.ref, params, flags })
  }

  /**
   * Writes the memory of a suspended domain to a path on the host, in the format of `save`, and leaves the domain paused. QEMU
   * refuses a second time until the guest has run, and libvirt then removes the file of that name.
   */
  async snapshotMemory(path: string, disks: readonly string[]): Promise<void> {
    const none = disks.map((name) => `<disk name='${name}' snapshot='no'/>`).join('')
    const xml = `<domainsnapshot><memory snapshot='external' file='${escapeXml(path)}'/><disks>${none}</disks></domainsnapshot>`
    await this.#change('domainSnapshotCreateXML', { domain: this.ref, xml, flags: snapshotFlag.noMetadata })
  }

  /** Sends a command to QEMU itself. libvirt marks the domain as tainted. Throws QEMU's sentence if it refuses. */
  async monitor(execute: string, parameters: Record<string, unknown> = {}): Promise<unknown> {
    const args = { domain: this.ref, command: JSON.stringify({ execute, arguments: parameters }), flags: 0 }
    const { answer } = await this.#change('domainMonitorCommand', args, { timeoutMs: monitorMs })
    const reply = JSON.parse(answer) as { return?: unknown; error?: { desc: string } }
    if (reply.error) throw new Error(`QEMU refused ${execute}: ${reply.error.desc}`)
    return reply.return
  }

  /** The running job (a save, a migration), or type `none`. */
  async jobInfo(): Promise<JobInfo> {
    const urgent = { urgent: true, timeoutMs: 30_000 }
    const job = await this.#calls.call('operations', 'domainGetJobInfo', { domain: this.ref }, urgent)
    return {
      type: nameOf(jobType, job.type),
      elapsedMs: Number(job.timeElapsed),
      remainingMs: Number(job.timeRemaining),
      dataTotalBytes: Number(job.dataTotal),
      dataProcessedBytes: Number(job.dataProcessed),
      dataRemainingBytes: Number(job.dataRemaining),
      memTotalBytes: Number(job.memTotal),
      memProcessedBytes: Number(job.memProcessed),
      memRemainingBytes: Number(job.memRemaining),
      fileTotalBytes: Number(job.fileTotal),
      fileProcessedBytes: Number(job.fileProcessed),
      fileRemainingBytes: Number(job.fileRemaining),
    }
  }

  /** Statistics of the running job, or of the last completed one. */
  async jobStats(
    options: { completed?: boolean; keepCompleted?: boolean } = {},
  ): Promise<{ type: JobInfo['type']; stats: Values }> {
    const args = { domain: this.ref, flags: flagsOf(jobStatsFlag, options) }
    const urgent = { urgent: true, timeoutMs: 30_000 }
    const { type, params } = await this.#calls.call('operations', 'domainGetJobStats', args, urgent)
    return { type: nameOf(jobType, type), stats: valuesOf(params) }
  }

  /** Aborts the running job. Its call then fails with `operationAborted`. Skips the queue. */
  async abortJob(): Promise<void> {
    await this.#change('domainAbortJob', { domain: this.ref }, { urgent: true })
  }

  /** The metadata element of that namespace, or undefined. */
  async metadata(uri: string, options: { live?: boolean; config?: boolean } = {}): Promise<string | undefined> {
    const args = { domain: this.ref, type: metadataType.element, uri, flags: flagsOf(affect, options) }
    try {
      return (await this.#calls.call('control', 'domainGetMetadata', args)).metadata
    } catch (error) {
      if (isLibvirtError(error, 'noDomainMetadata')) return undefined
      throw error
    }
  }

  /** Sets or removes the metadata element of that namespace, in the running domain, the definition, or both. */
  async setMetadata(metadata: {
    uri: string
    key: string
    xml: string | undefined
    live?: boolean
    config?: boolean
  }): Promise<void> {
    const { uri, key, xml, live, config } = metadata
    const flags = flagsOf(affect, { live, config })
    const args = { domain: this.ref, type: metadataType.element, metadata: xml, key, uri, flags }
    await this.#change('domainSetMetadata', args)
  }

  /** Adds a device to the running or paused domain. */
  async attachDevice(xml: string, options: CallOptions = {}): Promise<void> {
    await this.#change('domainAttachDeviceFlags', { domain: this.ref, xml, flags: affect.live }, options)
  }

  /** Removes a device from the running domain. */
  async detachDevice(xml: string, options: CallOptions = {}): Promise<void> {
    await this.#change('domainDetachDeviceFlags', { domain: this.ref, xml, flags: affect.live }, options)
  }

  /** Changes the size of a disk of the running domain. The guest notices; its file system stays as it is. */
  async resizeDisk(disk: string, bytes: number): Promise<void> {
    const args = { domain: this.ref, disk, bytes: BigInt(bytes), flags: blockResizeFlag.bytes }
    await this.#change('domainBlockResize', args)
  }

  /** The weight of the running domain among the host's processes, in the numbers of the host's cgroups. */
  async setCpuShares(shares: number): Promise<void> {
    const params = numberParams({ cpu_shares: shares }, 'u64')
    await this.#change('domainSetSchedulerParametersFlags', { domain: this.ref, params, flags: affect.live })
  }

  /** Limits the running domain's use of a disk, in libvirt's names, such as `total_iops_sec`; 0 is no limit. What is left out stays. */
  async setBlockIoTune(disk: string, limits: Record<string, number>): Promise<void> {
    const args = { domain: this.ref, disk, params: numberParams(limits, 'u64'), flags: affect.live }
    await this.#change('domainSetBlockIoTune', args)
  }

  /**
   * Limits the traffic of a running domain's interface, which its MAC address or its device names, in libvirt's names, such as
   * `inbound.average` in KiB/s; an average of 0 is no limit.
   */
  async setInterfaceParameters(device: string, limits: Record<string, number>): Promise<void> {
    const args = { domain: this.ref, device, params: numberParams(limits, 'u32'), flags: affect.live }
    await this.#change('domainSetInterfaceParameters', args)
  }

  /** Sets the guest's clock through its agent. With `sync` the guest takes the time of its own RTC instead. */
  async setTime(time: { seconds?: number | bigint; nanoseconds?: number; sync?: boolean }): Promise<void> {
    const { seconds = 0, nanoseconds = 0, sync } = time
    const args = { domain: this.ref, seconds: BigInt(seconds), nanoseconds, flags: flagsOf(setTimeFlag, { sync }) }
    await this.#calls.call('guest', 'domainSetTime', args, { turn: agentTurn(this.uuid) })
  }

  /** Migrates the running domain to another daemon, peer to peer: the source's daemon drives it, and our call waits. */
  async migrateTo(destination: string, migration: Migration): Promise<void> {
    const { params, flags } = migrationParams(migration)
    const args = { domain: this.ref, destination, params, cookie: new Uint8Array(), flags }
    await this.#change('domainMigratePerform3Params', args)
  }

  #change<N extends ProcedureName>(name: N, args: Args<N>, options: CallOptions = {}): Promise<Result<N>> {
    return this.#calls.call('operations', name, args, { turn: this.uuid, ...options })
  }
}

/** The turn of calls to one domain's guest agent. */
export function agentTurn(uuid: string): string {
  return `agent:${uuid}`
}

const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll("'", '&apos;')
