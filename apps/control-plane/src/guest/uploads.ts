// Uploads that go on after an interruption. What has come is in the guest, next to its target; the table has which uploads
// there are, and whether one may already have been placed. So none depends on a replica, an agent or a connection.
import {
  factsOf,
  type GuestCallBody,
  newId,
  Refusal,
  refuse,
  refuseField,
  refuseNotFound,
  type UploadJson,
  type UploadState,
  type UploadStep,
  uploadMaxSecs,
  uploadsMax,
} from '@dormouse/contract'
import { eachApart, type Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import * as desktops from '../desktops/store.ts'
import type { BoundedBody } from '../http/bounded-body.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { Forgetful } from '../reconcile/forgetful.ts'
import type { AwakeDesktops } from './awake.ts'
import { awakening } from './awaken.ts'
import type { Asking, GuestCaller } from './calls.ts'
import { type Transfers, throwCause } from './transfers.ts'
import type { UploadRow } from './upload-store.ts'
import * as store from './upload-store.ts'

interface UploadsOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  awake: AwakeDesktops
  calls: GuestCaller
  transfers: Transfers
  log: Log
}

type NewFile = Pick<UploadRow, 'path' | 'mode' | 'owner' | 'length'>

/** Which upload, of whom. */
export interface UploadRequest extends Asking {
  signal: AbortSignal
}

export interface Part {
  offset: number
  /** Whether the file ends with it. */
  complete: boolean
  body: BoundedBody
}

const timeoutSecs = 35
const removedAtOnce = 200
const desktopsAtOnce = 20
/** How long a desktop whose guest did not answer is left alone. */
const silentMs = 300_000
/** After these the guest may or may not have done the command. */
const isUnknown = (error: unknown) =>
  !(error instanceof Refusal) || ['host_unreachable', 'guest_unavailable', 'guest_deadline'].includes(error.code)

export class Uploads {
  readonly #options: UploadsOptions
  /** Desktops whose guests did not answer lately. */
  readonly #silent = new Forgetful(silentMs)

  constructor(options: UploadsOptions) {
    this.#options = options
  }

  /** Begins an upload: from then on it is in the table, and a file in the guest, with the first part if there is one. */
  async create(request: UploadRequest, given: NewFile, first?: Part): Promise<UploadJson> {
    const row = await this.#begin(request, given)
    if (!first) return toJson(row, 0, false)
    try {
      return await this.#append(request, row, first)
    } catch (error) {
      // Its client has no id of it, so nobody can go on with it.
      await this.#end({ ...request, awaken: undefined }, row)
      throw error
    }
  }

  async #begin(request: UploadRequest, given: NewFile): Promise<UploadRow> {
    const { leadership, awake } = this.#options
    const { caller, desktopId } = request
    await awakening(request.awaken, () => awake.require(caller, desktopId))
    const upload = { id: newId(), desktopId, orgId: caller.orgId, ...given }
    const row = await leadership.transaction(async (tx) => {
      if (!(await desktops.lock(tx, caller, desktopId))) refuseNotFound()
      if ((await store.countUnfinished(tx, desktopId)) >= uploadsMax)
        refuse('conflict', `the desktop has ${uploadsMax} unfinished uploads, which is the limit; finish or delete one`)
      return store.insert(tx, upload, uploadMaxSecs)
    })
    try {
      await this.#step(request, row, 'prepare')
      return row
    } catch (error) {
      await leadership.transaction((tx) => (isUnknown(error) ? store.expire(tx, row.id) : store.remove(tx, row.id)))
      throw error
    }
  }

  /** How much of it the guest has. Ends an append in progress, and finds out whether it was placed. */
  async show(request: UploadRequest, id: string): Promise<UploadJson> {
    const row = await this.#find(request, id)
    if (row.state === 'complete') return toJson(row, row.length!, true)
    const { size } = await this.#step(request, row, 'measure')
    if (size !== null) return toJson(row, size, false)
    if (row.state !== 'placing') return refuse('upload_lost')
    await this.#place(request, row, row.length!)
    return toJson(row, row.length!, true)
  }

  /** Adds a part, and places the file if it was the last one. What the guest's file system refuses ends the upload. */
  async append(request: UploadRequest, id: string, part: Part): Promise<UploadJson> {
    const row = await this.#find(request, id)
    try {
      return await this.#append(request, row, part)
    } catch (error) {
      if (error instanceof Refusal && factsOf(error.code).from === 'guest_files') await this.#end(request, row)
      throw error
    }
  }

  async #append(request: UploadRequest, row: UploadRow, { offset, complete, body }: Part): Promise<UploadJson> {
    if (row.state === 'complete') refuse('conflict', 'the upload is complete')
    if (row.state === 'placing') {
      const now = await this.show(request, row.id)
      if (now.complete) return now
    }
    const size = offset + (await this.#write(request, row, offset, body))
    if (row.length !== null && size > row.length) refuseField('Upload-Length', 'is less than the bytes that were sent')
    if (!complete) return toJson(row, size, false)
    await this.#place(request, row, size)
    return toJson(row, size, true)
  }

  /** Ends it, and removes what has come: at once, or when the desktop is awake again. */
  async remove(request: UploadRequest, id: string): Promise<void> {
    await this.#end(request, await this.#find(request, id))
  }

  async #end(request: UploadRequest, row: UploadRow): Promise<void> {
    const { leadership } = this.#options
    await leadership.transaction((tx) => store.expire(tx, row.id))
    if (row.state === 'complete') return
    try {
      await this.#step(request, row, 'drop')
      await leadership.transaction((tx) => store.remove(tx, row.id))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
  }

  /** Removes expired uploads with their files, and those of desktops that are gone. A guest that is silent delays no other. */
  async prune(): Promise<void> {
    const { pool, leadership, links, log } = this.#options
    await leadership.transaction((tx) => store.removeSettled(tx))
    const able = links.hostIds().filter((hostId) => links.takesCommands(hostId))
    const rows = await store.removable(pool, { limit: removedAtOnce, able, except: this.#silent.names() })
    const failed = (err: unknown, [desktopId]: [string, store.ExpiredUpload[]]) => {
      this.#silent.add(desktopId)
      log.info({ err, desktopId }, 'an expired upload could not be removed; retrying later')
    }
    const byDesktop = Map.groupBy(rows, ({ desktopId }) => desktopId)
    await eachApart(byDesktop, { atOnce: desktopsAtOnce, failed }, async ([, own]) => {
      for (const row of own) await this.#prune(row)
    })
  }

  async #prune(row: store.ExpiredUpload): Promise<void> {
    const { leadership, calls } = this.#options
    const { hostId, desktopId, generation } = row
    await calls.askHost(hostId, { desktopId, generation, timeoutSecs }, 'upload.step', stepOf(row, 'drop'))
    await leadership.transaction((tx) => store.remove(tx, row.id))
  }

  async #find({ caller, desktopId }: UploadRequest, id: string): Promise<UploadRow> {
    const { pool } = this.#options
    const [row, isReached] = await retryWhileUnavailable(() =>
      Promise.all([
        store.find(pool, caller.orgId, desktopId, id),
        caller.scope === null || desktops.find(pool, caller, desktopId),
      ]),
    )
    return row && isReached ? row : refuseNotFound()
  }

  /** Returns how many bytes were added. */
  async #write(request: UploadRequest, row: UploadRow, offset: number, body: BoundedBody): Promise<number> {
    const { caller, desktopId, signal, requestId, awaken } = request
    const transfer = { id: desktopId, path: row.path, signal, requestId, awaken }
    const more = { id: row.id, offset }
    const { channel, done } = await this.#options.transfers.begin(caller, transfer, 'upload.append', more)
    const sent = body.into(channel).catch((error: unknown) => throwCause(error, done))
    try {
      return (await Promise.race([sent.then(() => done), done])).size
    } finally {
      channel.destroy()
    }
  }

  /**
   * Has the guest move the file into place. The intent is stored before: if the answer is lost, a file of that length
   * without a temporary one means that it was done.
   */
  async #place(request: UploadRequest, row: UploadRow, length: number): Promise<void> {
    const { leadership } = this.#options
    const wasPlacing = row.state === 'placing'
    if (!(await leadership.transaction((tx) => store.startPlacing(tx, row.id, length))))
      refuseField('Upload-Length', `is ${row.length}, but the upload ends at ${length} bytes`)
    const { size, placed } = await this.#step(request, { ...row, length }, 'place')
    if (placed === 'now' || (placed === 'before' && wasPlacing)) {
      await leadership.transaction((tx) => store.complete(tx, row.id))
      return
    }
    await leadership.transaction((tx) => store.reopen(tx, row.id, wasPlacing ? null : row.length))
    return size === null ? refuse('upload_lost') : refuse('upload_offset')
  }

  #step(
    { caller, desktopId, requestId, awaken }: UploadRequest,
    row: UploadRow,
    step: UploadStep,
  ): Promise<UploadState> {
    const asking = { caller, desktopId, requestId, awaken }
    return this.#options.calls.ask(asking, 'upload.step', stepOf(row, step), { timeoutSecs, at: row })
  }
}

const stepOf = ({ id, path, length, mode, owner }: UploadRow, step: UploadStep): GuestCallBody<'upload.step'> => ({
  ...{ id, path, step, size: length, mode, owner },
})

const toJson = (row: UploadRow, offset: number, complete: boolean): UploadJson => ({
  id: row.id,
  path: row.path,
  complete,
  offset,
  length: complete ? offset : row.length,
  expires_at: row.expiresAt.toISOString(),
})
