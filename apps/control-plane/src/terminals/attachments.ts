// The open sockets of execs on this replica: admits them, and closes those that may not stay. Any replica with a link to the
// host serves them.
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  attachInputMaxBytes,
  attachQuery,
  id,
  matches,
  newId,
  Refusal,
  refusals,
  refuse,
  refuseField,
  type WokeJson,
  wokeHeader,
  wokeText,
} from '@dormouse/contract'
import { UpgradeRefusal, type Upgrades } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { WebSocket } from 'ws'
import { asUpgradeRefusal } from '../agents/handshakes.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import { type Awakener, awakening } from '../guest/awaken.ts'
import type { Asking } from '../guest/calls.ts'
import type { Execs } from '../guest/execs.ts'
import type { InFlightBytes } from '../http/in-flight-bytes.ts'
import { rateLimitHeaders } from '../http/problems.ts'
import { refuseUnknown } from '../http/unknown-fields.ts'
import { requireRight } from '../principals/rights.ts'
import type { Principals } from '../principals/service.ts'
import { hangUp } from '../streams/relay.ts'
import { type CredentialLimits, customerOf, protocolFor, wakeWishOfUpgrade } from './credentials.ts'
import { type Ending, endingAfter, endingOf, endings, moving } from './endings.ts'
import { AttachBreach, sendNote } from './messages.ts'
import { type Attachment, Session } from './session.ts'

export interface AttachmentsOptions {
  principals: Principals
  desktops: Desktops
  execs: Execs
  awakener: Awakener
  limits: CredentialLimits & { heldBytes: InFlightBytes }
  log: Log
}

interface Open {
  attachment: Attachment
  socket: WebSocket
  isEnding: boolean
}

const checkEveryMs = 1_000
/** A little more than a client may send at once, so that it can get the reason. */
const maxFrameBytes = attachInputMaxBytes + 16 * 1024

export class Attachments {
  readonly #options: AttachmentsOptions
  readonly #open = new Set<Open>()
  readonly #running = new Set<Promise<void>>()
  readonly #watching: NodeJS.Timeout
  #isChecking = false

  constructor(options: AttachmentsOptions) {
    this.#options = options
    this.#watching = setInterval(() => void this.#check(), checkEveryMs).unref()
  }

  /** How many are open. */
  get open(): number {
    return this.#open.size
  }

  /** Takes upgrades of `/v1/desktops/<id>/execs/<exec>/attach`. */
  attach(upgrades: Upgrades): void {
    upgrades.add({
      path: (pathname) => attachPath.test(pathname),
      maxFrameBytes,
      hold: (request, bytes) => this.#options.limits.heldBytes.holdFor(request, bytes),
      // Counted by its address before its credential is looked up, as other requests are.
      knows: () => true,
      protocol: protocolFor,
      authenticate: (request) => this.#enter(request),
      headers: ({ woke }) => wokeHeaders(woke),
      onSocket: (socket, attachment, request) => {
        socket.on('error', (err) => this.#options.log.debug({ err }, 'the socket of an exec failed'))
        const run = this.#run(socket, attachment, request).finally(() => this.#running.delete(run))
        this.#running.add(run)
      },
    })
  }

  /** Closes all sockets. */
  async close(): Promise<void> {
    clearInterval(this.#watching)
    for (const { socket } of this.#open) socket.terminate()
    await Promise.all(this.#running)
  }

  /** In the order of other requests: credential, syntax, existence, state. A desktop that is asleep may be woken. */
  async #enter(request: IncomingMessage): Promise<Attachment | UpgradeRefusal> {
    let woke: WokeJson | undefined
    try {
      const { principals, awakener, limits } = this.#options
      const caller = await customerOf(request, principals, limits)
      const parts = partsOf(request)
      requireRight(caller, 'use')
      const asking = { caller, desktopId: parts.desktopId, requestId: newId() }
      const awaken = awakener.for({
        ...{ ...asking, class: 'exec', wish: wakeWishOfUpgrade(request) },
        gone: () => goneOf(request),
        hasAnswered: () => false,
        woke: (how) => {
          woke = how
        },
      })
      return { ...(await awakening(awaken, () => this.#admit(asking, parts))), woke }
    } catch (error) {
      return asRefusedUpgrade(error, woke)
    }
  }

  async #admit(asking: Asking, parts: ReturnType<typeof partsOf>): Promise<Attachment> {
    const { desktops, execs } = this.#options
    const { execId, offset, stderr_offset, window } = parts
    const { hostId } = requireAwake(await desktops.get(asking.caller, asking.desktopId))
    const exec = await execs.get(asking, execId)
    const offsets = { stdout: offset ?? 0, stderr: stderr_offset ?? 0 }
    for (const stream of ['stdout', 'stderr'] as const) {
      const { end } = exec[stream]
      if (offsets[stream] > end) refuse('exec_offset', refusals.exec_offset.detail({ offset: offsets[stream], end }))
    }
    return { asking, exec, hostId, offsets, window }
  }

  async #run(socket: WebSocket, attachment: Attachment, request: IncomingMessage): Promise<void> {
    const { execs, limits, log } = this.#options
    const open = { attachment, socket, isEnding: false }
    const { desktopId, requestId } = attachment.asking
    const own = log.child({ session: requestId, desktop: desktopId, exec: attachment.exec.id })
    this.#open.add(open)
    own.info('an exec was attached')
    try {
      const hold = (bytes: number) => limits.heldBytes.holdFor(request, bytes)
      await new Session(socket, attachment, { execs, hold }).run()
      hangUp(socket, 1000, 'the exec has ended')
    } catch (error) {
      if (socket.readyState === socket.OPEN) this.#end(open, await this.#endingBy(error, attachment, own))
    }
    this.#open.delete(open)
    own.info('an exec was detached')
  }

  /** The desktop's state may be known only in a moment. */
  async #endingBy(error: unknown, { asking, hostId }: Attachment, log: Log): Promise<Ending> {
    if (error instanceof AttachBreach) return error.ending
    if (!(error instanceof Refusal)) log.warn({ err: error }, 'the socket of an exec was interrupted')
    const own = error instanceof Refusal ? endingAfter(error) : undefined
    if (own) return own
    const { desktops } = this.#options
    for (const waitMs of [0, 1_000]) {
      await sleep(waitMs)
      const now = await desktops.get(asking.caller, asking.desktopId).catch(() => undefined)
      const ending = now && endingOf(now, hostId)
      if (ending) return ending
      if (await desktops.isMoving(asking.desktopId).catch(() => false)) return moving
    }
    return endings.hostLost
  }

  #end(open: Open, { code, cause, why }: Ending): void {
    if (open.isEnding) return
    open.isEnding = true
    sendNote(open.socket, { end: { cause, why } })
    hangUp(open.socket, code, why)
  }

  /** Closes what was opened with a credential that is no longer valid. */
  async #check(): Promise<void> {
    if (this.#isChecking || this.#open.size === 0) return
    this.#isChecking = true
    const { principals, desktops, log } = this.#options
    try {
      const all = [...this.#open]
      const subjects = all.flatMap(({ attachment }) => attachment.asking.caller.subject ?? [])
      const withdrawn = await principals.withdrawn([...new Set(subjects)])
      const limited = all.filter(({ attachment }) => attachment.asking.caller.scope?.selector)
      const labels = await desktops.labelsOf(limited.map(({ attachment }) => attachment.asking.desktopId))
      for (const open of all) {
        const { caller, desktopId } = open.attachment.asking
        const { subject, goodUntil, scope } = caller
        if (subject !== null && withdrawn.has(subject)) this.#end(open, endings.revoked)
        else if (goodUntil !== null && goodUntil < Date.now()) this.#end(open, endings.expired)
        else if (scope?.selector && !matches(scope.selector, labels.get(desktopId) ?? {}))
          this.#end(open, endings.revoked)
      }
    } catch (err) {
      log.warn({ err }, 'the credentials of open sockets could not be checked')
    } finally {
      this.#isChecking = false
    }
  }
}

const attachPath = /^\/v1\/desktops\/([^/]+)\/execs\/([^/]+)\/attach$/

/** Whether a URL is one of these. */
export const takesUpgrades = (url: string): boolean => attachPath.test(url.split('?', 1)[0]!)

function partsOf({ url = '' }: IncomingMessage) {
  const [pathname = '', search] = url.split('?', 2)
  const [, desktop, exec] = attachPath.exec(pathname)!
  const [desktopId, execId] = [id.safeParse(desktop), id.safeParse(exec)]
  if (!desktopId.success) refuseField('id', 'must be a UUID')
  if (!execId.success) refuseField('exec', 'must be a UUID')
  const given = Object.fromEntries(new URLSearchParams(search))
  refuseUnknown('query parameter', attachQuery, given)
  const query = attachQuery.safeParse(given)
  if (query.success) return { desktopId: desktopId.data!, execId: execId.data!, ...query.data }
  const [issue] = query.error.issues
  return refuseField(String(issue?.path[0] ?? 'offset'), issue?.message ?? 'is not valid')
}

const wokeHeaders = (woke: WokeJson | undefined): Record<string, string> =>
  woke ? { [wokeHeader]: wokeText(woke) } : {}

/** Aborted when the client has left. */
function goneOf({ socket }: IncomingMessage): AbortSignal {
  const gone = new AbortController()
  socket.once('close', () => gone.abort())
  if (socket.destroyed) gone.abort()
  return gone.signal
}

function asRefusedUpgrade(error: unknown, woke: WokeJson | undefined): UpgradeRefusal {
  const refused = asUpgradeRefusal(error)
  if (!(error instanceof Refusal)) return refused
  const { retryAfterSecs } = error.extra
  const retryAfter = retryAfterSecs !== undefined && { 'retry-after': String(retryAfterSecs) }
  const headers = { ...rateLimitHeaders(error), ...retryAfter, ...wokeHeaders(woke) }
  return new UpgradeRefusal(refused.status, refused.detail, headers, refused.code)
}
