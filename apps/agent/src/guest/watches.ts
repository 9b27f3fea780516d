// Watches of folders in a guest: each is a command of the guest's program, which keeps what it prints. Keeps nothing, so they outlive
// this process, lost connections and hibernation.
import { type GuestCallBody, Refusal, refuse, type SeenChanges, watchReadMaxBytes } from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { answerOf, badAnswer, parseRead, watches } from '../scripts/supervisor.ts'
import { parseChanges, startWatchWords, watchBegan } from '../scripts/watches.ts'
import { removeRecord, waiting } from './execs.ts'

const stepSecs = 30
/** How long the guest may take to look at every folder below. */
const beginsWithinMs = 60_000
const beginWaitMs = 5_000

type Target = GuestCallBody<'watch.remove'>

interface Printed {
  bytes: Buffer
  /** The offset of the first byte. */
  from: number
  isRunning: boolean
}

export class GuestWatches {
  async start(guest: GuestTransport, request: GuestCallBody<'watch.start'>): Promise<{ next: number }> {
    try {
      answerOf(await guest.call({ words: startWatchWords(request), timeoutSecs: stepSecs }))
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

  async read(guest: GuestTransport, request: GuestCallBody<'watch.read'>): Promise<SeenChanges> {
    const { offset, wait_ms: waitMs } = request
    try {
      const printed = await this.#read(guest, request, offset, waitMs)
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
    await removeRecord(guest, watches, target.id)
  }

  async #read(guest: GuestTransport, target: Target, offset: number, waitMs: number): Promise<Printed> {
    const words = [watches, 'read', target.id, 'out', offset, watchReadMaxBytes, waitMs]
    const { exec, from, bytes } = parseRead(await guest.call({ words, ...waiting(waitMs) }))
    if (exec.id !== target.id || bytes.length > watchReadMaxBytes) badAnswer()
    return { bytes, from, isRunning: exec.state === 'running' }
  }
}
