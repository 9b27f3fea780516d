// What libvirt counts of running domains, by one call for all of them. Their disks and memory are QEMU's to tell: one that hangs
// delays the call, so it gets little time, and the calls after it ask no QEMU for a while.
import type { DesktopId } from '@dormouse/contract'
import { statsGroup, type Values } from '@dormouse/node-libvirt'
import { before } from '../../mechanics/deadlines.ts'
import type { GuestUsage } from '../driver.ts'
import { orRefuse } from './failures.ts'
import type { Installation } from './installation.ts'

type Counted = Omit<GuestUsage, 'processorMs' | 'ranMs' | 'networkBytes'>

const wholeGroups = statsGroup.interface | statsGroup.balloon | statsGroup.block
const wholeMs = 3_000
const withoutQemuMs = 60_000
/** How often a guest's driver reports its memory to QEMU. */
const reportEverySecs = 10
/** What was reported longer ago is not how it is now. */
const reportedWithinSecs = 60

export class DomainStatistics {
  readonly #installation: Installation
  readonly #isFrozen: (desktopId: DesktopId) => boolean
  /** By the monotonic clock. */
  #withoutQemuUntil = 0
  /** When the QEMU of each desktop was told to ask its guest. */
  readonly #asked = new Map<DesktopId, number>()

  constructor(installation: Installation, isFrozen: (desktopId: DesktopId) => boolean) {
    this.#installation = installation
    this.#isFrozen = isFrozen
  }

  /** Without `whole`, and while a QEMU hangs, it has the network alone. */
  async read(desktopIds: readonly DesktopId[], whole: boolean): Promise<Map<DesktopId, Counted>> {
    const all = (whole && (await this.#whole(desktopIds))) || (await this.#read(statsGroup.interface))
    const counted = new Map(all.map(({ domain, stats }) => [domain.uuid, countedOf(stats)]))
    if (whole) for (const { domain, stats } of all) this.#askForMemory(domain.uuid, stats)
    return counted
  }

  release(desktopId: DesktopId): void {
    this.#asked.delete(desktopId)
  }

  /** Undefined if it took too long. A domain that libvirt already works at is left out of what asks QEMU. */
  async #whole(desktopIds: readonly DesktopId[]) {
    const domains = desktopIds.filter((one) => !this.#isFrozen(one)).map((one) => this.#installation.domain(one))
    if (performance.now() < this.#withoutQemuUntil || domains.length === 0) return undefined
    const read = await before(performance.now() + wholeMs, this.#read(wholeGroups, domains))
    if (!read) this.#withoutQemuUntil = performance.now() + withoutQemuMs
    return read
  }

  #read(groups: number, domains?: ReturnType<Installation['domain']>[]) {
    const all = this.#installation.session.host.domains
    const read = all.stats({ groups, nowait: true, ...(domains && { domains }) })
    return orRefuse('the statistics of the domains could not be read', read)
  }

  /**
   * A QEMU asks the guest for its memory only if it was told to, and forgets that at each start. Told over its monitor: in the
   * domain's XML it would be refused by hosts of an earlier release. Not awaited: the memory is in a later read.
   */
  #askForMemory(desktopId: DesktopId, stats: Values): void {
    const now = performance.now()
    const askedAt = this.#asked.get(desktopId) ?? Number.NEGATIVE_INFINITY
    if (!('balloon.current' in stats) || isRecent(stats) || now - askedAt < reportedWithinSecs * 1_000) return
    this.#asked.set(desktopId, now)
    const property = { path: '/machine/peripheral/balloon0', property: 'guest-stats-polling-interval' }
    const told = this.#installation.domain(desktopId).monitor('qom-set', { ...property, value: reportEverySecs })
    // A guest that has ended, or a domain without a balloon: its memory stays unknown.
    told.catch(() => undefined)
  }
}

const isRecent = (stats: Values): boolean =>
  Date.now() / 1_000 - Number(stats['balloon.last-update'] ?? 0) < reportedWithinSecs

function countedOf(stats: Values): Counted {
  const [available, usable] = [stats['balloon.available'], stats['balloon.usable']]
  const isKnown = available !== undefined && usable !== undefined && isRecent(stats)
  return {
    receivedBytes: sumOf(stats, /^net\.\d+\.rx\.bytes$/) ?? 0,
    sentBytes: sumOf(stats, /^net\.\d+\.tx\.bytes$/) ?? 0,
    readBytes: sumOf(stats, /^block\.\d+\.rd\.bytes$/),
    writtenBytes: sumOf(stats, /^block\.\d+\.wr\.bytes$/),
    memoryMiB: inMiB(stats['balloon.current']),
    memoryUsedMiB: isKnown ? inMiB(Number(available) - Number(usable)) : undefined,
  }
}

/** Undefined if it has no such value. */
function sumOf(stats: Values, names: RegExp): number | undefined {
  const found = Object.entries(stats).filter(([name]) => names.test(name))
  return found.length === 0 ? undefined : found.reduce((sum, [, value]) => sum + Number(value), 0)
}

const inMiB = (kib: unknown): number | undefined => (kib === undefined ? undefined : Number(kib) / 1_024)
