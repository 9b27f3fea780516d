// The open screens of this replica: admits their sockets, and periodically closes those that may not stay. The check
// reads only the database, so that it notices what another replica or a host did.
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { isId, type ScreenNote, screenCloses, screenProtocol, ticketKept } from '@dormouse/contract'
import { UpgradeRefusal, type Upgrades } from '@dormouse/link'

import type { Log } from '@dormouse/process'
import type { RawData, WebSocket } from 'ws'
import type { Channels } from '../agents/channels.ts'
import { asUpgradeRefusal } from '../agents/handshakes.ts'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import { hashOf, tokenForm } from '../principals/random-tokens.ts'
import type { Principals, Standing } from '../principals/service.ts'
import { type Admission, admit, type Entrance } from './admission.ts'
import { type Ending, endingOn, endings } from './endings.ts'
import type { IssuedTokens } from './issued-tokens.ts'
import { endSocket, pingClient, relay, sendPulses } from './relay.ts'
import { answersToViewer } from './rfb-answers.ts'
import { RfbFilter } from './rfb-filter.ts'
import { RfbInputs } from './rfb-inputs.ts'
import { RfbBreach } from './rfb-terms.ts'
import type { Screen } from './store.ts'
import * as store from './store.ts'

export interface ScreensOptions {
  pool: Pool
  principals: Principals
  links: Links
  channels: Channels
  issued: IssuedTokens
  /** Called for each input of the client that controls the screen; one function for each screen. */
  inputOf(desktopId: string): () => void
  /** Counts a socket for its holder; throws a refusal above the limit. */
  count(request: IncomingMessage, holder: string): void
  /** Counts bytes that are kept for a socket; throws a refusal above the limit. */
  hold(request: IncomingMessage, bytes: number): Disposable
  /** The service's public origin, accepted beside the one of the request. */
  origin: string | undefined
  log: Log
}

interface Session {
  admission: Admission
  socket: WebSocket
  /** Why it was closed. */
  ending: Ending | undefined
}

const checkEveryMs = 500
/** QEMU takes texts of a mebibyte. */
const screenFrameMaxBytes = 1024 * 1024 + 64 * 1024
const renewEveryMs = 5_000
const openTimeoutMs = 10_000

export class Screens {
  readonly #options: ScreensOptions
  readonly #sessions = new Map<string, Session>()
  readonly #running = new Set<Promise<void>>()
  readonly #watching: NodeJS.Timeout
  #checking: Promise<void> | undefined
  #renewedAt = 0

  constructor(options: ScreensOptions) {
    this.#options = options
    this.#watching = setInterval(() => this.#checking ?? void this.check(), checkEveryMs).unref()
  }

  /** Admits clients with a token. Refusals are close codes: a browser shows a page no other response. */
  attach(upgrades: Upgrades): void {
    upgrades.add({
      path: (pathname) => screenOf(pathname) !== undefined,
      maxFrameBytes: screenFrameMaxBytes,
      hold: this.#options.hold,
      knows: ({ url = '' }) => this.#options.issued.take(hashOf(screenOf(url)!.token)),
      authenticate: async (request) => {
        if (!this.#isOurs(request))
          return new UpgradeRefusal(
            403,
            'the request comes from another origin; open the screen on the service’s own page',
          )
        const { token, ...screen } = screenOf(request.url ?? '')!
        const count = (holder: string) => this.#options.count(request, holder)
        return this.#admit({ screen, token, isPage: offersTickets(request), count })
      },
      onSocket: (socket, entrance) => {
        socket.on('error', (err) => this.#options.log.debug({ err }, 'a viewer’s socket failed'))
        if ('code' in entrance) return endSocket(socket, entrance)
        const run = this.#run(socket, entrance).finally(() => this.#running.delete(run))
        this.#running.add(run)
      },
    })
  }

  /** How many are open. */
  get open(): number {
    return this.#sessions.size
  }

  /** Closes every session that may not stay. One check at a time; a call during one waits for the next. */
  async check(): Promise<void> {
    await this.#checking
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  /** Closes all sockets, and waits until their claims are released. */
  async close(): Promise<void> {
    for (const { socket } of this.#sessions.values()) socket.terminate()
    await Promise.all(this.#running)
    clearInterval(this.#watching)
  }

  async #admit(entrance: Entrance): Promise<Admission | Ending | UpgradeRefusal> {
    const { pool, principals, issued } = this.#options
    const admitted = await admit(pool, principals, entrance).catch(asUpgradeRefusal)
    if ('ticket' in admitted) issued.note(hashOf(admitted.ticket))
    return admitted
  }

  /** Programs send no Origin; a browser sends the origin of the page that opens the socket. */
  #isOurs({ headers }: IncomingMessage): boolean {
    if (headers.origin === undefined || headers.origin === this.#options.origin) return true
    return URL.canParse(headers.origin) && new URL(headers.origin).host === headers.host
  }

  async #run(socket: WebSocket, admission: Admission): Promise<void> {
    const { sessionId, desktopId, claim } = admission
    const log = this.#options.log.child({ session: sessionId, desktop: desktopId, claim })
    const session: Session = { admission, socket, ending: undefined }
    // What the client sends waits in the network until the screen is open.
    socket.pause()
    pingClient(socket)
    this.#sessions.set(sessionId, session)
    log.info('a screen was opened')
    try {
      await this.#show(session)
    } catch (error) {
      if (error instanceof RfbBreach) this.#endInvalid(session, error, log)
      else log.debug({ err: error }, 'a screen was interrupted')
    }
    if (socket.readyState === socket.OPEN) this.#end(session, await this.#endingAfter(session))
    this.#sessions.delete(sessionId)
    await this.#leave(session, log)
    log.info({ code: session.ending?.code }, 'a screen was closed')
  }

  /** Relays the screen until either side ends it. */
  async #show({ admission, socket }: Session): Promise<void> {
    const { desktopId, claim, ticket, sessionId } = admission
    if (socket.protocol === screenProtocol) this.#sendTicket(socket, sessionId, ticket)
    const gone = new AbortController()
    socket.once('close', () => gone.abort())
    const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(openTimeoutMs)])
    const channel = await this.#openChannel(admission, signal)
    if (socket.readyState !== socket.OPEN) return void channel.destroy()
    const inputs = new RfbInputs(this.#options.inputOf(desktopId))
    const fromClient = new RfbFilter(claim, (messages) => inputs.hear(messages))
    const fromScreen = claim === 'view' ? answersToViewer(fromClient.terms) : undefined
    await relay(socket, channel, { fromClient, fromScreen })
  }

  /** Makes the host dial back; refuses if the host is unreachable or refuses. */
  async #openChannel({ hostId, sessionId, desktopId, generation, claim }: Admission, signal: AbortSignal) {
    const { links, channels } = this.#options
    const awaited = channels.expect(hostId)
    const screen = { desktopId, generation, claim, channel: awaited.token }
    const asked = links.command(hostId, 'stream.open', screen, { signal, requestId: sessionId })
    try {
      return await Promise.race([awaited.channel, asked.then(() => awaited.channel)])
    } catch (error) {
      awaited.cancel()
      throw error
    } finally {
      // Once the channel is open, a failure of the call shows on the channel.
      asked.catch(() => undefined)
    }
  }

  /** Sent first, so that the page can reconnect whatever fails later. */
  #sendTicket(socket: WebSocket, sessionId: string, ticket: string): void {
    const { pool, log } = this.#options
    socket.send(JSON.stringify({ ticket } satisfies ScreenNote))
    sendPulses(socket)
    const hear = (data: RawData, isBinary: boolean) => {
      if (isBinary || data.toString() !== ticketKept) return
      socket.off('message', hear)
      store
        .confirm(pool, sessionId)
        .catch((err) => log.warn({ err }, 'a used token stays valid until the next ticket is confirmed'))
    }
    socket.on('message', hear)
  }

  /** Why the screen ended first: the desktop's state, which may be known only in a moment, or a lost connection. */
  async #endingAfter({ admission }: Session): Promise<Ending> {
    for (const waitMs of [0, 1_000]) {
      await sleep(waitMs)
      const known = await store.watched(this.#options.pool, [admission.sessionId]).catch(() => undefined)
      const ending = known?.[0] && endingOn(known[0], admission)
      if (ending) return ending
      if (known?.length === 0) return endings.takenOver
    }
    return endings.hostLost
  }

  #endInvalid(session: Session, breach: RfbBreach, log: Log): void {
    const isOurs = breach.by === 'screen'
    log[isOurs ? 'warn' : 'debug']({ err: breach }, 'a screen was closed after an invalid message')
    this.#end(session, isOurs ? endings.unfollowed : endings.unreadable)
  }

  #end(session: Session, ending: Ending): void {
    if (session.ending) return
    session.ending = ending
    endSocket(session.socket, ending)
  }

  async #leave({ admission: { sessionId }, ending }: Session, log: Log): Promise<void> {
    const release = ending?.code === screenCloses.asleep ? store.release : store.leave
    await release(this.#options.pool, sessionId).catch((err) =>
      log.warn({ err }, 'a claim was not released and will expire'),
    )
  }

  async #check(): Promise<void> {
    const sessions = [...this.#sessions.values()]
    const ids = sessions.map(({ admission }) => admission.sessionId)
    if (ids.length === 0) return
    const { pool, principals, log } = this.#options
    try {
      const known = new Map((await store.watched(pool, ids)).map((one) => [one.sessionId, one]))
      const standing = await principals.standing([...known.values()].map(({ holder }) => holder))
      for (const session of sessions) {
        const now = known.get(session.admission.sessionId)
        const ending = endingNow(now, standing, session.admission)
        if (ending) this.#end(session, ending)
      }
      await this.#renew(ids)
    } catch (err) {
      log.warn({ err }, 'open screens could not be checked')
    }
  }

  async #renew(ids: string[]): Promise<void> {
    if (performance.now() - this.#renewedAt < renewEveryMs) return
    this.#renewedAt = performance.now()
    await store.renew(this.#options.pool, ids)
  }
}

function endingNow(
  now: store.Watched | undefined,
  standing: Standing,
  opened: { generation: number; hostId: string },
): Ending | undefined {
  if (!now) return endings.takenOver
  if (now.expired) return endings.expired
  return standing.reaches(now.holder, now.desktop) ? endingOn(now, opened) : endings.revoked
}

/** If several protocols are offered, the first is used. */
const offersTickets = ({ headers }: IncomingMessage): boolean =>
  headers['sec-websocket-protocol']?.split(',', 1)[0]?.trim() === screenProtocol

/** The screen and the token that a path names: `/screens/<desktop>/<claim>/<token>`. */
function screenOf(url: string): (Screen & { token: string }) | undefined {
  const [desktopId, claim, token, more] = (url.split('?', 1)[0] ?? '').split('/').slice(2)
  const known = url.startsWith('/screens/') && (claim === 'view' || claim === 'control') && more === undefined
  if (!known || !desktopId || !isId(desktopId) || !token || !tokenForm.test(token)) return undefined
  return { desktopId: desktopId.toLowerCase(), claim, token }
}
