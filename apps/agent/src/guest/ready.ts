// Waits until a guest answers and its clock is set, and then until it is ready, if its image defines that. Tells a slow
// guest from one whose process has ended, and gives up early on a restored guest that will not answer.
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, type ExecCommand, type ExecResult, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Domain, Driver } from '../driver/driver.ts'
import type { Guests, GuestTransport } from '../driver/guest-transport.ts'
import type { Readiness } from '../images/images.ts'
import { before, unlessAborted } from '../mechanics/deadlines.ts'

interface ReadyDeps {
  driver: { domain(id: string): Promise<Pick<Domain, 'state' | 'reason'> | undefined> }
  guests: { guest(id: string): AnsweringGuest }
}

interface AnsweringGuest extends Pick<GuestTransport, 'setTime'> {
  exec(command: ExecCommand, deadline: number): Promise<Pick<ExecResult, 'exitCode'>>
}

interface ResumedDeps extends ReadyDeps, RestoredDeps {
  driver: ReadyDeps['driver'] & RestoredDeps['driver']
  guests: Pick<Guests, 'guest' | 'tell'>
  log: Log
}

/** The pause between two tries, as a share of the time waited so far. */
const pauseShare = 0.05
const shortestPauseMs = 5
const longestPauseMs = 100
const checkEveryMs = 500
const firstTryPauseMs = 50
const longestTryPauseMs = 1_000

/** Returns when the guest answers; `guest_silent` after `timeoutMs`, `hypervisor_failed` when its process ends. */
export async function untilAnswers(
  deps: ReadyDeps,
  desktopId: string,
  timeoutMs: number,
  signal: AbortSignal,
  restored?: RestoredGuest,
) {
  const guest = deps.guests.guest(desktopId)
  const startedAt = performance.now()
  let checkedAt = startedAt
  for (;;) {
    signal.throwIfAborted()
    if (await answers(guest)) return
    const now = performance.now()
    if (now - startedAt > timeoutMs) {
      refuse('guest_silent', `the guest did not answer within ${Math.round(timeoutMs / 1000)} s of starting`)
    }
    if (now - checkedAt > checkEveryMs) {
      checkedAt = now
      await requireRunning(deps, desktopId)
      await restored?.look()
    }
    await sleep(Math.min(Math.max((now - startedAt) * pauseShare, shortestPauseMs), longestPauseMs))
  }
}

/**
 * The same for a guest that was up when its memory was saved, and earlier for one that will not answer. Our program in it answers
 * first, and its random numbers are new then. If that does not answer, the guest is waited for as after a boot.
 */
export async function untilResumed(deps: ResumedDeps, desktopId: DesktopId, timeoutMs: number, signal: AbortSignal) {
  const deadline = performance.now() + timeoutMs
  try {
    return await unlessAborted(deps.guests.tell(desktopId), signal)
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof Refusal)) throw error
    deps.log.warn({ err: error, desktopId }, 'a guest could not be told that it was woken; its agent sets its clock')
  }
  const restored = new RestoredGuest(deps, desktopId)
  await untilAnswers(deps, desktopId, deadline - performance.now(), signal, restored)
}

interface ReadyRequest extends Readiness {
  desktopId: DesktopId
  generation: number
  maxTries: number
  /** The deadline of all tries, on the clock of `performance.now()`. */
  deadline: number
}

/** Whether the command of its image succeeds in time; `hypervisor_failed` when its process ends meanwhile. */
export async function becomesReady(deps: ReadyDeps, request: ReadyRequest, signal: AbortSignal): Promise<boolean> {
  const guest = deps.guests.guest(request.desktopId)
  let pauseMs = firstTryPauseMs
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted()
    if (await succeeds(guest, request, signal)) return true
    if (tries >= request.maxTries || performance.now() + pauseMs >= request.deadline) return false
    await requireRunning(deps, request.desktopId)
    await sleep(pauseMs)
    pauseMs = Math.min(pauseMs * 1.5, longestTryPauseMs)
  }
}

/** One try. It is killed at its deadline, which is not waited for. */
async function succeeds(guest: AnsweringGuest, request: ReadyRequest, signal: AbortSignal): Promise<boolean> {
  const { desktopId, generation, command, tryTimeoutSecs: timeoutSecs } = request
  const deadline = Math.min(request.deadline, performance.now() + timeoutSecs * 1_000)
  const exec = { desktopId, generation, command, cwd: null, env: {}, stdin: null, timeoutSecs }
  const trying = guest.exec(exec, deadline).then(({ exitCode }) => exitCode === 0, falseIfRefused)
  return (await unlessAborted(before(deadline, trying), signal)) ?? false
}

/** A guest that boots may refuse anything. */
function falseIfRefused(error: unknown): false {
  if (error instanceof Refusal) return false
  throw error
}

async function requireRunning({ driver }: ReadyDeps, desktopId: string): Promise<void> {
  const domain = await driver.domain(desktopId)
  if (domain?.state === 'running') return
  const what = domain?.state === 'paused' ? 'was paused' : 'ended'
  const reason = domain?.reason ? ` (${domain.reason})` : ''
  refuse('hypervisor_failed', `the desktop's process ${what} before its guest answered${reason}`)
}

async function answers(guest: AnsweringGuest): Promise<boolean> {
  try {
    // A guest whose clock is set has answered: a ping before it would be one call more.
    await guest.setTime()
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

export interface RestoredDeps {
  driver: Pick<Driver, 'guestSleep' | 'usage' | 'frozen'>
}

/** A guest that wants no processor for so long waits for nothing of its own. */
const quietMs = 10_000
/** A guest that has used or waited for a processor for so long is busy with something else. */
const busyMs = 40_000
/** The share of one processor's time that an idle guest uses at most. */
const idleShare = 0.3

export class RestoredGuest {
  readonly #deps: RestoredDeps
  readonly #desktopId: DesktopId
  readonly #now: () => number
  #before: { at: number; usedMs: number } | undefined
  #quietForMs = 0
  #busyForMs = 0

  constructor(deps: RestoredDeps, desktopId: DesktopId, now = () => performance.now()) {
    this.#deps = deps
    this.#desktopId = desktopId
    this.#now = now
  }

  /** To be called repeatedly while it is silent. Wakes a guest that sleeps; refuses with `guest_silent` one that will not answer. */
  async look(): Promise<void> {
    await this.#deps.driver.guestSleep.wake(this.#desktopId).catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error
    })
    await this.#measure()
    if (this.#quietForMs >= quietMs)
      refuse('guest_silent', 'the guest is idle after its memory was restored, and does not answer')
    if (this.#busyForMs >= busyMs)
      refuse('guest_silent', 'the guest is busy since its memory was restored, and does not answer')
  }

  async #measure(): Promise<void> {
    const usage = await this.#deps.driver.usage([this.#desktopId])
    const usedMs = usage.get(this.#desktopId)?.processorMs
    const [at, before] = [this.#now(), this.#before]
    this.#before = usedMs === undefined ? undefined : { at, usedMs }
    // One whose process is stopped may go on at any time.
    const isKnown = usedMs !== undefined && before !== undefined && !this.#deps.driver.frozen(this.#desktopId)
    if (!isKnown) {
      this.#quietForMs = 0
      return
    }
    const [passedMs, busyMs] = [at - before.at, usedMs - before.usedMs]
    this.#busyForMs += busyMs
    this.#quietForMs = busyMs / passedMs > idleShare ? 0 : this.#quietForMs + passedMs
  }
}
