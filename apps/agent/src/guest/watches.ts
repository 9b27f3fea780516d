// Watches of folders in a guest, over either transport: each is a command of the supervisor, which keeps what it prints. Keeps
// nothing, so they outlive this process, lost connections and hibernation.
import { type CommandPayload, type CommandResult, Refusal, refuse, watchReadMaxBytes } from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { badAnswer, parseStatus, watchesIn } from '../scripts/supervisor.ts'
import { parseChanges, startWatchArgs, watchBegan } from '../scripts/watches.ts'
import type { GuestExecs } from './execs.ts'

const stepSecs = 30
/** How long the guest may take to look at every folder below. */
const beginsWithinMs = 60_000
const beginWaitMs = 5_000
const removeWaitMs = 5_000

type Target = Pick<CommandPayload<'watch.remove'>, 'desktopId' | 'generation' | 'watchId'>

interface Printed {
  bytes: Buffer
  /** The offset of the first byte. */
  from: number
  isRunning: boolean
}

export class GuestWatches {
  readonly #execs: GuestExecs

  constructor(execs: GuestExecs) {
    this.#execs = execs
  }

  async start(guest: GuestTransport, request: CommandPayload<'watch.start'>): Promise<CommandResult<'watch.start'>> {
    try {
      await this.#execs.operate(guest, request, (place) => startWatchArgs(place, request), { folderIn: watchesIn })
      return { next: await this.#began(guest, request) }
    } catch (error) {
      await this.remove(guest, request).catch(() => undefined)
      if (error instanceof Refusal && error.code === 'exec_limit') return refuse('watch_limit')
      throw error
    }
  }

  async #began(guest: GuestTransport, target: Target): Promise<number> {
    const until = performance.now() + beginsWithinMs
    while (performance.now() < until) {
      const { bytes, isRunning } = await this.#read(guest, target, 0, beginWaitMs)
      const next = watchBegan(bytes.toString('latin1'))
      if (next !== undefined) return next
      if (!isRunning) break
    }
    return refuse('guest_deadline', 'the guest could not look at all folders in time; watch a smaller one')
  }

  async read(guest: GuestTransport, request: CommandPayload<'watch.read'>): Promise<CommandResult<'watch.read'>> {
    const { offset, waitMs } = request
    try {
      const printed = await this.#read(guest, request, offset, waitMs ?? 0)
      const missed = printed.from !== offset
      // The first line is cut if some were dropped before it.
      const cut = missed ? printed.bytes.indexOf('\n') + 1 : 0
      const { changes, bytes } = parseChanges(printed.bytes.subarray(cut))
      const isAll = printed.bytes.length < watchReadMaxBytes
      return { changes, next: printed.from + cut + bytes, missed, ended: !printed.isRunning && isAll }
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'exec_unknown') throw error
      return { changes: [], next: offset, missed: true, ended: true }
    }
  }

  async remove(guest: GuestTransport, target: Target): Promise<void> {
    const args = ['remove', target.watchId, removeWaitMs]
    await this.#execs.operate(guest, target, args, { folderIn: watchesIn }).catch((error: unknown) => {
      if (!(error instanceof Refusal) || error.code !== 'exec_unknown') throw error
    })
  }

  async #read(guest: GuestTransport, target: Target, offset: number, waitMs: number): Promise<Printed> {
    const args = ['read', target.watchId, 'out', offset, watchReadMaxBytes, waitMs]
    const options = { folderIn: watchesIn, timeoutSecs: stepSecs + Math.ceil(waitMs / 1_000) }
    const [line = '', head = '', data = ''] = await this.#execs.operate(guest, target, args, options)
    const [, from, count] = /^data (\d{1,15}) (\d{1,7})$/.exec(head) ?? badAnswer()
    const bytes = Buffer.from(data, 'base64')
    if (bytes.length !== Number(count) || bytes.length > watchReadMaxBytes) badAnswer()
    const report = parseStatus(line)
    if (report.execId !== target.watchId) badAnswer()
    return { bytes, from: Number(from), isRunning: report.state === 'running' }
  }
}
