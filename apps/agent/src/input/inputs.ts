// Batches of input and looks at screens, one batch at a time per desktop. A connection to a screen is kept for a moment after
// its last use. Knows neither claims nor who asks.
import { once } from 'node:events'
import {
  type DesktopId,
  goesBeyond,
  type InputCommand,
  type InputResult,
  type Point,
  refuse,
  type SeenScreen,
} from '@dormouse/contract'
import { KeyedMutex } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { ScreenClients } from '../streams/screen-clients.ts'
import { isConnectedInTime, offerTo, readFrom, requireClipboard } from './clipboards.ts'
import { Damage } from './damage.ts'
import { layoutNamed } from './layouts.ts'
import { perform, reasonOf } from './perform.ts'
import { type Plan, plan } from './plan.ts'
import { RfbSession } from './rfb-session.ts'
import { type SettleParams, settle } from './settle.ts'

interface Deps {
  driver: Pick<Driver, 'screen' | 'keyboard' | 'clipboardConnected'>
  screenClients: Pick<ScreenClients, 'beginBatch' | 'hold'>
}

/** A batch that runs, or waits for another one of its desktop. */
interface Batch {
  desktopId: DesktopId
  batchId: string
  stop: AbortController
}

interface Open {
  session: Promise<RfbSession>
  /** Its picture is a large one. */
  isLarge: boolean
  users: number
  closing: NodeJS.Timeout | undefined
  /** It follows a clipboard, so that it stays open. */
  isKept: boolean
}

export interface Look {
  wait: 'settled' | 'changed' | null
  /** The sequence that the caller has seen. */
  after: string | null
  settle: SettleParams
}

const keptMs = 5_000
/** Connections that stay open to follow a clipboard. Above this, they close as the others do. */
const mostKept = 256
/** What a desktop's video memory has in 32 bits a pixel. Guests set larger screens in fewer bits; only few of those are kept. */
const largeBytes = 16 * 1024 * 1024
const mostLarge = 4
/** More batches than these wait for one desktop: their caller does not wait for outcomes. */
const mostWaiting = 4
const longestWaitMs = 15_000

export class Inputs {
  readonly #driver: Deps['driver']
  readonly #screenClients: Deps['screenClients']
  readonly #lock = new KeyedMutex()
  readonly #open = new Map<DesktopId, Open>()
  readonly #batches = new Set<Batch>()
  readonly #pointers = new Map<DesktopId, Point>()
  /** Desktops whose batches do not begin. */
  readonly #held = new Map<DesktopId, number>()

  constructor({ driver, screenClients }: Deps) {
    this.#driver = driver
    this.#screenClients = screenClients
  }

  /** Performs a batch, or refuses it before its first event. `signal`: the caller no longer waits, so that it stops. */
  async perform(command: InputCommand, signal: AbortSignal): Promise<InputResult> {
    const { desktopId } = command
    const waiting = this.#batchesOf(desktopId)
    if (waiting.length >= mostWaiting) return { refused: { ...nothing, why: 'busy' } }
    const batch: Batch = { desktopId, batchId: command.batchId, stop: new AbortController() }
    this.#batches.add(batch)
    const since = performance.now()
    try {
      return await this.#lock.run(desktopId, async () => {
        if (performance.now() - since > longestWaitMs) return { refused: { ...nothing, why: 'busy' } }
        return await this.#run(command, AbortSignal.any([signal, batch.stop.signal]))
      })
    } finally {
      this.#batches.delete(batch)
    }
  }

  /** The batch stops before its next event, and releases what it holds. */
  interrupt(desktopId: DesktopId, batchId: string): void {
    for (const batch of this.#batchesOf(desktopId)) {
      if (batch.batchId === batchId) batch.stop.abort(new Error('another client took the claim'))
    }
  }

  /** Stops the desktop's batches, releases every key and button, also a person's, and lets no input pass until it is disposed. */
  async hold(desktopId: DesktopId, why: string): Promise<Disposable> {
    this.#held.set(desktopId, (this.#held.get(desktopId) ?? 0) + 1)
    for (const { stop } of this.#batchesOf(desktopId)) stop.abort(new Error(why))
    await this.#lock.run(desktopId, async () => this.#disconnect(desktopId))
    const clients = await this.#screenClients.hold(desktopId)
    return {
      [Symbol.dispose]: () => {
        clients[Symbol.dispose]()
        const left = (this.#held.get(desktopId) ?? 1) - 1
        if (left > 0) this.#held.set(desktopId, left)
        else this.#held.delete(desktopId)
      },
    }
  }

  /**
   * The screen as it is now, or as soon as it is as the caller waits for it, within `maxMs` in all. If `after` is given, both
   * waits begin with a change from that sequence. `picture` gets the session then. What is returned is the screen as it is when that
   * calls `see`.
   */
  async look(
    desktopId: DesktopId,
    { wait, after, settle: params }: Look,
    signal: AbortSignal,
    picture: (session: RfbSession, see: () => void) => Promise<void>,
  ): Promise<SeenScreen> {
    return this.#with(desktopId, async (session) => {
      const damage = new Damage()
      using _watched = session.watch((region) => damage.changed(region))
      // What has changed before does not count.
      await session.refresh()
      damage.start()
      const startedAt = performance.now()
      const sinceStart = () => Math.round(performance.now() - startedAt)
      const changed =
        (wait === 'changed' || (wait !== null && after !== null)) &&
        (await changedFrom(session, after, params.maxMs, signal))
      const left = { ...params, maxMs: Math.max(1, params.maxMs - sinceStart()) }
      const settled = wait === 'settled' ? await settle(session, damage, left, 'any', signal) : null
      let seen = this.#seen(desktopId, session)
      await picture(session, () => {
        seen = this.#seen(desktopId, session)
      })
      return {
        ...seen,
        settled: settled?.settled ?? null,
        changed: changed || damage.hasChanged,
        settleMs: wait === null ? 0 : sinceStart(),
      }
    })
  }

  /** The text that was copied last in the guest or by this agent; null if none was seen. */
  async readClipboard(desktopId: DesktopId): Promise<{ text: string | null; truncated: boolean }> {
    await requireClipboard(this.#driver, desktopId)
    return this.#with(desktopId, readFrom)
  }

  /** The guest's programs paste this text from now on. Waits for a batch that runs. */
  async writeClipboard(desktopId: DesktopId, text: string): Promise<void> {
    await this.#lock.run(desktopId, async () => {
      this.#requireNotHeld(desktopId)
      await requireClipboard(this.#driver, desktopId)
      await this.#with(desktopId, async (session) => {
        offerTo(session.clipboard, text)
        // The screen takes messages in their order, so that its answer to a later one is proof.
        await session.refresh()
      })
    })
  }

  /** Ends every batch and connection. */
  close(): void {
    for (const { stop } of this.#batches) stop.abort(new Error('the host’s agent is stopping'))
    for (const desktopId of [...this.#open.keys()]) this.#disconnect(desktopId)
  }

  #batchesOf(desktopId: DesktopId): Batch[] {
    return [...this.#batches].filter((batch) => batch.desktopId === desktopId)
  }

  async #run(command: InputCommand, signal: AbortSignal): Promise<InputResult> {
    const { desktopId } = command
    this.#requireNotHeld(desktopId)
    if (signal.aborted) return { outcome: 'interrupted', performed: 0, reason: reasonOf(signal), seen: null }
    return await this.#with(desktopId, (session) => this.#begin(session, command, signal))
  }

  #requireNotHeld(desktopId: DesktopId): void {
    if (this.#held.has(desktopId))
      refuse('guest_unavailable', 'the desktop is about to hibernate or to move; check its state, then retry')
  }

  async #begin(session: RfbSession, command: InputCommand, signal: AbortSignal): Promise<InputResult> {
    const { desktopId, actions, space, expectedScreen, paceMs, region } = command
    const { layout, clipboard } = await this.#driver.keyboard(desktopId)
    const screen = { width: session.frame.width, height: session.frame.height }
    if (expectedScreen && !isSame(expectedScreen, screen)) {
      return { refused: { ...nothing, why: 'screen_changed', screen } }
    }
    if (region && goesBeyond(region, screen)) return { refused: { ...nothing, why: 'outside', screen } }
    const made = plan(actions, {
      layout: layoutNamed(layout),
      clipboard: clipboard && session.clipboard.isShared,
      pointer: this.#pointers.get(desktopId),
      ...{ screen, space, paceMs },
    })
    if ('refused' in made) return made
    if (pastes(made) && !(await isConnectedInTime(this.#driver, desktopId))) {
      refuse(
        'guest_unavailable',
        'the guest’s program for the clipboard is not connected; start `spice-vdagent` in the guest, then retry',
      )
    }
    using _alone = await this.#screenClients.beginBatch(desktopId, { supersedes: command.supersedes ?? false })
    const damage = new Damage()
    using _watched = session.watch((region) => damage.changed(region))
    // What has changed before does not count. Nor does what was released just now: the screen has taken it by then.
    await session.refresh()
    damage.start(this.#pointers.get(desktopId))
    const performed = await perform(session, made.planned, { paceMs, damage, signal })
    if (session.pointer) this.#pointers.set(desktopId, session.pointer)
    return { ...performed, seen: session.isEnded ? null : await this.#after(session, command, damage, signal) }
  }

  async #after(
    session: RfbSession,
    { desktopId, settle: params }: InputCommand,
    damage: Damage,
    signal: AbortSignal,
  ): Promise<SeenScreen | null> {
    try {
      const settled = params && !signal.aborted ? await settle(session, damage, params, 'changed', signal) : undefined
      return {
        ...this.#seen(desktopId, session),
        settled: settled?.settled ?? null,
        changed: damage.hasChanged,
        settleMs: settled?.settleMs ?? 0,
      }
    } catch {
      // The events were sent. What the screen shows is not known any more.
      return null
    }
  }

  #seen(desktopId: DesktopId, { frame }: RfbSession): Pick<SeenScreen, 'width' | 'height' | 'sequence' | 'pointer'> {
    const { width, height } = frame
    return { width, height, sequence: frame.sequence(), pointer: this.#pointers.get(desktopId) ?? null }
  }

  async #with<T>(desktopId: DesktopId, work: (session: RfbSession) => Promise<T>): Promise<T> {
    const open = this.#opened(desktopId)
    open.users++
    clearTimeout(open.closing)
    try {
      return await work(await open.session)
    } finally {
      open.users--
      if (open.users === 0) open.closing = setTimeout(() => void this.#rest(desktopId, open), keptMs).unref()
    }
  }

  /** The last use is over. What is copied meanwhile is known only to a connection that is open. */
  async #rest(desktopId: DesktopId, open: Open): Promise<void> {
    const session = await open.session.catch(() => undefined)
    const { clipboard } = await this.#driver.keyboard(desktopId).catch(() => ({ clipboard: false }))
    if (open.users > 0) return
    const kept = [...this.#open.values()].filter(({ isKept }) => isKept).length
    open.isKept = clipboard && session?.clipboard.isShared === true && (open.isKept || kept < mostKept)
    if (open.isKept) session?.forgetPicture()
    else if (this.#open.get(desktopId) === open) this.#disconnect(desktopId)
  }

  #opened(desktopId: DesktopId): Open {
    const kept = this.#open.get(desktopId)
    if (kept) return kept
    const mayKeep = (bytes: number) => this.#mayKeep(open, bytes)
    const session = this.#driver.screen(desktopId).then((socket) => RfbSession.open(socket, mayKeep))
    const open: Open = { session, isLarge: false, users: 0, closing: undefined, isKept: false }
    this.#open.set(desktopId, open)
    const forget = () => {
      if (this.#open.get(desktopId) === open) this.#open.delete(desktopId)
    }
    session.then((opened) => (opened.isEnded ? forget() : opened.once('ended', forget)), forget)
    return open
  }

  /** Large pictures of screens that are not in use are dropped first. */
  #mayKeep(open: Open, bytes: number): boolean {
    open.isLarge = false
    const large = [...this.#open].filter(([, { isLarge }]) => isLarge)
    if (bytes > largeBytes && large.length >= mostLarge) {
      const unused = large.find(([, { users }]) => users === 0)
      if (!unused) return false
      this.#disconnect(unused[0])
    }
    open.isLarge = bytes > largeBytes
    return true
  }

  #disconnect(desktopId: DesktopId): void {
    const open = this.#open.get(desktopId)
    if (!open) return
    this.#open.delete(desktopId)
    clearTimeout(open.closing)
    open.session.then(
      (session) => session.close(),
      () => undefined,
    )
  }
}

const nothing = { index: null, character: null, screen: null, takesMs: null }

const pastes = ({ planned }: Extract<Plan, { planned: unknown }>): boolean =>
  planned.some((steps) => steps.some(({ type }) => type === 'paste'))

const isSame = (a: { width: number; height: number }, b: { width: number; height: number }): boolean =>
  a.width === b.width && a.height === b.height

/** Whether the screen shows something other than what the caller has seen, as soon as it does, or when the time is over. */
async function changedFrom(
  session: RfbSession,
  after: string | null,
  maxMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const before = after ?? session.frame.sequence()
  const either = AbortSignal.any([signal, AbortSignal.timeout(maxMs)])
  while (!either.aborted && !session.isEnded) {
    if (session.frame.sequence() !== before) return true
    await once(session, 'update', { signal: either }).catch(() => undefined)
  }
  return false
}
