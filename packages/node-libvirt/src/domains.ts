/** The domains of one host: finds, defines, starts and restores them, and reads statistics of many at once. */
import type { Calls } from './calls.ts'
import { createFlag, saveFlag, statsFlag } from './constants.ts'
import { Domain, type SaveOptions } from './domain.ts'
import { isLibvirtError } from './errors.ts'
import type { DomainRef } from './protocol.ts'
import { flagsOf, type Values, valuesOf } from './values.ts'

export interface StatsOptions {
  /** Bits of `statsGroup`. Balloon and block query every QEMU's monitor: one that hangs delays them all. */
  groups: number
  /** Only these; by default all. */
  domains?: Domain[]
  /** Leaves out what a busy domain cannot return at once. */
  nowait?: boolean
}

/** The turn of the domain that the XML describes, if it has a UUID. */
function turnOf(xml: string): string | undefined {
  return /<uuid>\s*([\da-f-]{36})\s*<\/uuid>/i.exec(xml)?.[1]?.toLowerCase()
}

/** The domains of one host. */
export class Domains {
  readonly #calls: Calls

  constructor(calls: Calls) {
    this.#calls = calls
  }

  /** A handle on a domain whose UUID and name are known. Makes no call. */
  of(domain: { uuid: string; name: string }): Domain {
    return new Domain(this.#calls, domain)
  }

  /** All domains, or those that `listDomainsFlag` selects. */
  async list(flags = 0): Promise<Domain[]> {
    const { domains } = await this.#calls.call('control', 'connectListAllDomains', { wantResults: 1, flags })
    return domains.map((domain) => this.of(domain))
  }

  /** The domain with that UUID, or undefined if there is none. */
  lookup(uuid: string): Promise<Domain | undefined> {
    return this.#found(this.#calls.call('control', 'domainLookupByUUID', { uuid }))
  }

  /** The domain with that name, or undefined if there is none. */
  lookupByName(name: string): Promise<Domain | undefined> {
    return this.#found(this.#calls.call('control', 'domainLookupByName', { name }))
  }

  /** Defines a domain, or redefines the one of the same name and UUID. */
  async define(xml: string, { validate = false } = {}): Promise<Domain> {
    const args = { xml, flags: validate ? 1 : 0 }
    return this.of((await this.#calls.call('control', 'domainDefineXMLFlags', args, { turn: turnOf(xml) })).domain)
  }

  /** Starts a transient domain. */
  async createXml(
    xml: string,
    options: { paused?: boolean; autodestroy?: boolean; validate?: boolean } = {},
  ): Promise<Domain> {
    const args = { xml, flags: flagsOf(createFlag, options) }
    return this.of((await this.#calls.call('operations', 'domainCreateXML', args, { turn: turnOf(xml) })).domain)
  }

  /** Starts a domain from a saved image; it is transient until it is defined. */
  async restore(path: string, { xml, ...options }: SaveOptions = {}): Promise<void> {
    await this.#calls.call('operations', 'domainRestoreFlags', { path, xml, flags: flagsOf(saveFlag, options) })
  }

  /** The domain XML that a saved image carries. */
  async saveImageXml(path: string): Promise<string> {
    return (await this.#calls.call('control', 'domainSaveImageGetXMLDesc', { path, flags: 0 })).xml
  }

  /** Statistics of many domains in one call, with libvirt's names (`cpu.time`, `state.state`, …). */
  async stats({ groups, domains = [], nowait }: StatsOptions): Promise<{ domain: Domain; stats: Values }[]> {
    const args = { domains: domains.map((domain) => domain.ref), groups, flags: flagsOf(statsFlag, { nowait }) }
    const { records } = await this.#calls.call('stats', 'connectGetAllDomainStats', args)
    return records.map(({ domain, params }) => ({ domain: this.of(domain), stats: valuesOf(params) }))
  }

  async #found(answer: Promise<{ domain: DomainRef }>): Promise<Domain | undefined> {
    try {
      return this.of((await answer).domain)
    } catch (error) {
      if (isLibvirtError(error, 'noDomain')) return undefined
      throw error
    }
  }
}
