/**
 * A migration whose caller makes libvirt's five calls itself, each at its own daemon, so that the daemons never connect to
 * each other: begin, perform and confirm at the source, prepare and finish at the destination. Each side has a connection of
 * its own, because libvirt aborts the migration when the connection that began it closes.
 */
import type { Connection } from './connection.ts'
import { migrateFlag } from './constants.ts'
import type { DomainRef, TypedParam } from './protocol.ts'
import { textParams } from './values.ts'

export interface MigrationRoute {
  /** Bits of `migrateFlag`, the same on both sides. `changeProtection` is added for the source. */
  flags: number
  /** The domain's name, which is the same on both sides. */
  name: string
  /** Path of the unix socket for the memory. QEMU binds it at the destination; at the source, libvirtd connects to it. */
  memorySocket: string
  /** Path of the unix socket for the disks, in the same way. QEMU's user must be able to use it. */
  disksSocket: string
}

const noCookie = new Uint8Array()

const paramsOf = ({ name, memorySocket, disksSocket }: MigrationRoute): TypedParam[] =>
  textParams({
    migrate_uri: `unix://${memorySocket}`,
    disks_uri: `unix://${disksSocket}`,
    destination_name: name,
  })

/** The source's side. Cookies are opaque; each goes to the next call as it is. */
export class OutgoingMigration {
  readonly #connection: Connection
  readonly #domain: DomainRef
  readonly #route: { params: TypedParam[]; flags: number }

  /** The connection must be used for nothing else, and is closed with the migration. */
  constructor(connection: Connection, { uuid, name }: { uuid: string; name: string }, route: MigrationRoute) {
    this.#connection = connection
    this.#domain = { uuid, name, id: -1 }
    this.#route = { params: paramsOf(route), flags: (route.flags | migrateFlag.changeProtection) >>> 0 }
  }

  /** Holds the domain's job until `confirm`, and returns its XML as the destination needs it. */
  begin(): Promise<{ cookie: Uint8Array; xml: string }> {
    return this.#connection.call('domainMigrateBegin3Params', { domain: this.#domain, ...this.#route })
  }

  /** Sends disks and memory; both sockets must be listened on. When it returns, the domain is paused and has no lock. */
  async perform(cookie: Uint8Array): Promise<Uint8Array> {
    const args = { domain: this.#domain, destination: undefined, cookie, ...this.#route }
    return (await this.#connection.call('domainMigratePerform3Params', args)).cookie
  }

  /** Ends the domain here; with `cancelled` it goes on here instead. A failed `perform` needs no confirm. */
  async confirm(cookie: Uint8Array | undefined, { cancelled = false } = {}): Promise<void> {
    const args = { domain: this.#domain, cookie: cookie ?? noCookie, cancelled: Number(cancelled), ...this.#route }
    await this.#connection.call('domainMigrateConfirm3Params', args)
  }

  get closed(): boolean {
    return this.#connection.closed
  }

  /** libvirt aborts what is not yet performed. What was performed stays paused. */
  close(): void {
    this.#connection.close()
  }
}

/** The destination's side. */
export class IncomingMigration {
  readonly #connection: Connection
  readonly #route: { params: TypedParam[]; flags: number }

  /** The connection must be used for nothing else, and is closed with the migration. */
  constructor(connection: Connection, route: MigrationRoute) {
    this.#connection = connection
    this.#route = { params: paramsOf(route), flags: route.flags >>> 0 }
  }

  /** Starts a QEMU that waits for disks and memory. Both sockets exist when this returns. */
  async prepare(xml: string, cookie: Uint8Array): Promise<Uint8Array> {
    const { flags } = this.#route
    const params = [...this.#route.params, ...textParams({ destination_xml: xml })]
    return (await this.#connection.call('domainMigratePrepare3Params', { params, cookie, flags })).cookie
  }

  /** The domain exists here when this returns: paused with the flag `paused`, else it runs. */
  async finish(cookie: Uint8Array): Promise<Uint8Array> {
    return (await this.#connection.call('domainMigrateFinish3Params', { cookie, cancelled: 0, ...this.#route })).cookie
  }

  /** Ends the QEMU that waits. libvirt reports that as an error: `migrateFinishOk`, or `noDomain` if none waits. */
  async cancel(): Promise<void> {
    await this.#connection.call('domainMigrateFinish3Params', { cookie: noCookie, cancelled: 1, ...this.#route })
  }

  get closed(): boolean {
    return this.#connection.closed
  }

  /** The QEMU that waits ends with it; one that has finished stays. */
  close(): void {
    this.#connection.close()
  }
}
