// The clients of this host's screens. Copies the bytes between each screen and its client, and knows what the client holds
// down: whatever ends it, and before anything else types or the desktop sleeps, that is released.
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DesktopId, StreamClaim } from '@dormouse/contract'
import { CallRefused, ChannelLost, freeMemory } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import { before } from '../mechanics/deadlines.ts'
import { ClientInput } from './client-input.ts'

/** QEMU passes keys on one by one, some time apart. The clock is the guest's. */
const keyMs = 20
/** QEMU takes a message at once, unless its process is stopped or has ended. */
const takenMs = 1_000
const closeMs = 2_000

export class ScreenClients {
  readonly #clients = new Map<DesktopId, Set<ScreenClient>>()
  /** How many callers block input now: none passes. */
  readonly #held = new Map<DesktopId, number>()
  /** Batches of input that run. */
  readonly #batches = new Map<DesktopId, Set<Promise<void>>>()

  /** Copies in both directions, with back-pressure, until one side ends, and then ends the other. */
  async join(
    { desktopId, claim }: { desktopId: DesktopId; claim: StreamClaim },
    screen: Duplex,
    channel: Duplex,
    log: Log,
  ): Promise<void> {
    if (claim === 'control') await this.#supersede(desktopId)
    const client = new ScreenClient(screen, { isHeld: this.#held.has(desktopId) })
    const all = this.#clients.get(desktopId) ?? new Set()
    this.#clients.set(desktopId, all.add(client))
    try {
      await client.join(channel, () => this.#batchesOver(desktopId))
    } catch (error) {
      // The viewer or the desktop is gone: every screen ends so.
      const isUsual = error instanceof ChannelLost || error instanceof CallRefused || isClose(error)
      if (!isUsual) log.warn({ err: error }, 'a screen’s connection ended unexpectedly')
    } finally {
      all.delete(client)
      if (all.size === 0) this.#clients.delete(desktopId)
    }
  }

  /**
   * For a batch of input, until it is disposed: releases what the desktop's clients hold, and keeps the connections of those that
   * leave. QEMU releases every key of the screen, also the batch's, when one of its clients disconnects. With `supersedes`, the
   * clients lose their input for good.
   */
  async beginBatch(desktopId: DesktopId, { supersedes }: { supersedes: boolean }): Promise<Disposable> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const batches = this.#batches.get(desktopId) ?? new Set()
    this.#batches.set(desktopId, batches.add(promise))
    if (supersedes) await this.#supersede(desktopId)
    else await this.#release(desktopId)
    return {
      [Symbol.dispose]: () => {
        batches.delete(promise)
        if (batches.size === 0) this.#batches.delete(desktopId)
        resolve()
      },
    }
  }

  /** Releases what the desktop's clients hold, and lets none of their input pass until it is disposed. */
  async hold(desktopId: DesktopId): Promise<Disposable> {
    this.#held.set(desktopId, (this.#held.get(desktopId) ?? 0) + 1)
    for (const client of this.#of(desktopId)) client.isHeld = true
    await this.#release(desktopId)
    return {
      [Symbol.dispose]: () => {
        const left = (this.#held.get(desktopId) ?? 1) - 1
        if (left > 0) return void this.#held.set(desktopId, left)
        this.#held.delete(desktopId)
        for (const client of this.#of(desktopId)) client.isHeld = false
      },
    }
  }

  async #supersede(desktopId: DesktopId): Promise<void> {
    for (const client of this.#of(desktopId)) client.supersede()
    await this.#release(desktopId)
  }

  async #release(desktopId: DesktopId): Promise<void> {
    await Promise.all(this.#of(desktopId).map((client) => client.release()))
  }

  #of(desktopId: DesktopId): ScreenClient[] {
    return [...(this.#clients.get(desktopId) ?? [])]
  }

  async #batchesOver(desktopId: DesktopId): Promise<void> {
    for (let some = this.#batches.get(desktopId); some; some = this.#batches.get(desktopId)) await Promise.all(some)
  }
}

class ScreenClient {
  readonly #screen: Duplex
  readonly #input = new ClientInput()
  #isHeld: boolean
  #isSuperseded = false

  constructor(screen: Duplex, { isHeld }: { isHeld: boolean }) {
    this.#screen = screen
    this.#isHeld = this.#input.isMuted = isHeld
    // Both directions notice it by themselves.
    screen.on('error', () => undefined)
  }

  set isHeld(isHeld: boolean) {
    this.#isHeld = isHeld
    this.#input.isMuted = this.#isHeld || this.#isSuperseded
  }

  supersede(): void {
    this.#isSuperseded = this.#input.isMuted = true
  }

  async join(channel: Duplex, mayLeave: () => Promise<void>): Promise<void> {
    const shown = copyOut(this.#screen, channel)
    shown.catch(() => channel.destroy())
    const heard = this.#copyIn(channel).finally(() => this.#leave(shown, mayLeave))
    await Promise.all([shown, heard])
  }

  /** Returns when the guest has what releases its keys and buttons, or the screen does not take it in time. */
  async release(): Promise<void> {
    const messages = this.#input.release()
    if (messages.length === 0 || this.#screen.destroyed) return
    await before(performance.now() + takenMs, this.#send(Buffer.concat(messages)))
    await sleep(messages.length * keyMs)
  }

  async #copyIn(channel: Duplex): Promise<void> {
    for await (const chunk of channel.iterator({ destroyOnReturn: false })) {
      const passed = this.#input.pass(chunk)
      if (passed.length > 0) await this.#send(passed)
      if (this.#screen.destroyed) return
    }
  }

  #send(bytes: Buffer): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#screen.writableEnded || this.#screen.destroyed) return Promise.resolve()
    this.#screen.write(bytes, () => resolve())
    return promise
  }

  /** The connection ends in both directions, one after the other: what was sent before a plain close is not always read. */
  async #leave(shown: Promise<void>, mayLeave: () => Promise<void>): Promise<void> {
    const screen = this.#screen
    this.supersede()
    // A screen whose pictures nobody reads may not read either.
    void shown.catch(() => undefined).then(() => screen.resume())
    await this.release()
    await mayLeave()
    const closed = screen.destroyed ? undefined : once(screen, 'close').catch(() => undefined)
    screen.end()
    await before(performance.now() + closeMs, Promise.resolve(closed))
    screen.destroy()
  }
}

/** One chunk at a time, each when the one before has been sent. Then its memory is released. */
async function copyOut(screen: Duplex, channel: Duplex): Promise<void> {
  for await (const chunk of screen.iterator({ destroyOnReturn: false })) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    channel.write(chunk, (error) => (error ? reject(error) : resolve()))
    await promise
    freeMemory(chunk)
  }
  channel.end()
}

const closeCodes = ['ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_DESTROYED', 'ECONNRESET', 'EPIPE', 'ABORT_ERR']
const isClose = (error: unknown): boolean => closeCodes.includes((error as NodeJS.ErrnoException).code ?? '')
