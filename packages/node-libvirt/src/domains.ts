/** The domains of one host: finding, defining, starting and restoring them, and figures of many at once. */
import type { Calls } from './calls.ts'
import { createFlag, saveFlag, statsFlag } from './constants.ts'
import { Domain, type SaveOptions } from './domain.ts'
import { isLibvirtError } from './errors.ts'
import type { DomainRef } from './protocol.ts'
import { flagsOf, type Values, valuesOf } from './values.ts'

export interface StatsWish {
  /** Of `statsGroup`. Balloon and block enter every QEMU's monitor, where one that hangs holds up all. */
  groups: number
  /** These alone; by default all. */
  domains?: Domain[]
  /** Leaves out what a busy domain cannot answer at once. */
  nowait?: boolean
}

/** The turn of the domain that an XML describes, where it names its UUID. */
function turnOf(xml: string): string | undefined {
  return /<uuid>\s*([\da-f-]{36})\s*<\/uuid>/i.exec(xml)?.[1]?.toLowerCase()
}

/** The domains of one host. */
export class Domains {
  readonly #calls: Calls

  constructor(calls: Calls) {
    this.#calls = calls
  }

  /** A handle on a domain whose UUID and name are known, without asking. */
  of(domain: { uuid: string; name: string }): Domain {
    return new Domain(this.#calls, domain)
  }

  /** All domains, or those that `listDomainsFlag` selects. */
  async list(flags = 0): Promise<Domain[]> {
    const { domains } = await this.#calls.call('control', 'connectListAllDomains', { wantResults: 1, flags })
    return domains.map((domain) => this.of(domain))
  }

  /** The domain of that UUID, or undefined where there is none. */
  lookup(uuid: string): Promise<Domain | undefined> {
    return this.#found(this.#calls.call('control', 'domainLookupByUUID', { uuid }))
  }

  /** The domain of that name, or undefined where there is none. */
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

  /** Figures of many domains in one call, by libvirt's names (`cpu.time`, `state.state`, …). */
  async stats({ groups, domains = [], nowait }: StatsWish): Promise<{ domain: Domain; stats: Values }[]> {
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
