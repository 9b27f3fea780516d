// What libvirt reports of this installation's domains and their jobs.
import { type DesktopId, isId } from '@dormouse/contract'
import { type Domain as Handle, isLibvirtError } from '@dormouse/node-libvirt'
import type { Domain } from '../driver.ts'
import { markNamespace, readMark } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import type { Installation } from './installation.ts'
import type { Pauses } from './pauses.ts'
import { meaningOf } from './state-table.ts'

export class DomainStates {
  readonly #installation: Installation
  readonly #pauses: Pauses

  constructor(installation: Installation, pauses: Pauses) {
    this.#installation = installation
    this.#pauses = pauses
  }

  async list(): Promise<Domain[]> {
    const handles = await orRefuse('the domains could not be listed', this.#installation.session.host.domains.list())
    const found = await Promise.all(handles.filter(({ uuid }) => isId(uuid)).map((handle) => this.#read(handle)))
    return found.filter((domain) => domain !== undefined)
  }

  read(desktopId: DesktopId): Promise<Domain | undefined> {
    return this.#read(this.#installation.domain(desktopId))
  }

  /** A save that is `completed` has still to end its process, and its domain is listed until that is done. */
  async hasJob(desktopId: DesktopId): Promise<boolean> {
    try {
      return (await this.#installation.domain(desktopId).jobInfo()).type !== 'none'
    } catch (error) {
      if (isLibvirtError(error, 'noDomain', 'operationInvalid')) return false
      return orRefuse('the desktop’s job could not be read', Promise.reject(error))
    }
  }

  async #read(handle: Handle): Promise<Domain | undefined> {
    const answered = this.#pauses.ask(handle.uuid)
    try {
      const [{ state, reason }, metadata] = await Promise.all([handle.state(), handle.metadata(markNamespace)])
      const mark = metadata && readMark(metadata)
      if (!mark || mark.installationId !== this.#installation.id) return undefined
      const meaning = meaningOf({ state, reason })
      answered(meaning.state === 'paused')
      return {
        desktopId: handle.uuid,
        mark,
        ...meaning,
        reason: state === 'running' ? null : state === 'pmsuspended' ? state : reason,
      }
    } catch (error) {
      if (isLibvirtError(error, 'noDomain')) return undefined
      return orRefuse('the domain could not be read', Promise.reject(error))
    }
  }
}
