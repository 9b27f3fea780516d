// The screens that are open on this replica: a door for their sockets, and a watch that ends those which may not stay.
// The watch has no input but the database, so that whatever another replica or a host did is noticed here too.
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { isId, type ScreenNote, screenCloses, screenProtocol, ticketKept } from '@dormouse/contract'
import { UpgradeRefusal, type Upgrades } from '@dormouse/link'

import type { Log } from '@dormouse/process'
import type { RawData, WebSocket } from 'ws'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import { asUpgradeRefusal } from '../agents/newcomers.ts'
import type { Pool } from '../db/pool.ts'
import type { Principals } from '../principals/service.ts'
import { type Admission, admit, type Entrance } from './admission.ts'
import { type Ending, endingOf, endings } from './endings.ts'
import { openChannel } from './host-channel.ts'
import type { IssuedTokens } from './issued-tokens.ts'
import { endSocket, relay, tellPulse, watchPulse } from './relay.ts'
import { answersToViewer } from './rfb-answers.ts'
import { RfbFilter } from './rfb-filter.ts'
import { RfbBreach } from './rfb-terms.ts'
import type { Screen } from './store.ts'
import * as store from './store.ts'
import { hashOf, tokenForm } from './tokens.ts'

export interface ScreensOptions {
  pool: Pool
  principals: Principals
  links: Links
  channels: Channels
  given: IssuedTokens
  /** Counts a socket by whose it is; throws a refusal where that is one too many. */
  count(request: IncomingMessage, holder: string): void
  /** Where browsers find the pages of this service, beside the address they asked. */
  origin: string | undefined
  log: Log
}

interface Session {
  admission: Admission
  socket: WebSocket
  /** Why it was told to end. */
  ending: Ending | undefined
}

const lookEveryMs = 500
const renewEveryMs = 5_000
const openTimeoutMs = 10_000

export class Screens {
  readonly #options: ScreensOptions
  readonly #sessions = new Map<string, Session>()
  readonly #running = new Set<Promise<void>>()
  readonly #watching: NodeJS.Timeout
  #looking: Promise<void> | undefined
  #renewedAt = 0

  constructor(options: ScreensOptions) {
    this.#options = options
    this.#watching = setInterval(() => this.#looking ?? void this.look(), lookEveryMs).unref()
  }

  /** Lets viewers in who bring a token. Why one may not stay is said by close codes: a browser shows no other answer. */
  attach(upgrades: Upgrades): void {
    upgrades.add({
      path: (pathname) => screenOf(pathname) !== undefined,
      knows: ({ url = '' }) => this.#options.given.take(hashOf(screenOf(url)!.token)),
      authenticate: async (request) => {
        if (!this.#isOurs(request)) return new UpgradeRefusal(403, 'screens are shown by the pages of this service')
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

  /** Ends every session that may not stay. One look at a time; a wish during one is answered by the next. */
  async look(): Promise<void> {
    await this.#looking
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    await this.#looking
  }

  /** Waits until the sockets, which were told to end, have left their claims. */
  async close(): Promise<void> {
    for (const { socket } of this.#sessions.values()) socket.terminate()
    await Promise.all(this.#running)
    clearInterval(this.#watching)
  }

  async #admit(entrance: Entrance): Promise<Admission | Ending | UpgradeRefusal> {
    const { pool, principals, given } = this.#options
    const admitted = await admit(pool, principals, entrance).catch(asUpgradeRefusal)
    if ('ticket' in admitted) given.note(hashOf(admitted.ticket))
    return admitted
  }

  /** Programs have no origin; a browser says whose page opened the socket. */
  #isOurs({ headers }: IncomingMessage): boolean {
    if (headers.origin === undefined || headers.origin === this.#options.origin) return true
    return URL.canParse(headers.origin) && new URL(headers.origin).host === headers.host
  }

  async #run(socket: WebSocket, admission: Admission): Promise<void> {
    const { sessionId, desktopId, claim } = admission
    const log = this.#options.log.child({ session: sessionId, desktop: desktopId, claim })
    const session: Session = { admission, socket, ending: undefined }
    // What the viewer says waits in the network until there is a screen to say it to.
    socket.pause()
    watchPulse(socket)
    this.#sessions.set(sessionId, session)
    log.info('a screen was opened')
    try {
      await this.#show(session)
    } catch (error) {
      if (error instanceof RfbBreach) this.#endUnread(session, error, log)
      else log.debug({ err: error }, 'a screen broke off')
    }
    if (socket.readyState === socket.OPEN) this.#end(session, await this.#whyOver(session))
    this.#sessions.delete(sessionId)
    await this.#leave(session, log)
    log.info({ code: session.ending?.code }, 'a screen was closed')
  }

  /** Returns when it is over, whoever ended it. */
  async #show({ admission, socket }: Session): Promise<void> {
    const { desktopId, generation, hostId, claim, ticket, sessionId } = admission
    if (socket.protocol === screenProtocol) this.#giveTicket(socket, sessionId, ticket)
    const gone = new AbortController()
    socket.once('close', () => gone.abort())
    const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(openTimeoutMs)])
    const wish = { hostId, name: 'stream.open', desktopId, generation, requestId: sessionId } as const
    const channel = await openChannel(this.#options, wish, signal)
    if (socket.readyState !== socket.OPEN) return void channel.destroy()
    const said = new RfbFilter(claim)
    const answered = claim === 'view' ? answersToViewer(said.terms) : undefined
    await relay(socket, channel, { said, answered })
  }

  /** First of all: whatever fails from here on, the page can come back. */
  #giveTicket(socket: WebSocket, sessionId: string, ticket: string): void {
    const { pool, log } = this.#options
    socket.send(JSON.stringify({ ticket } satisfies ScreenNote))
    tellPulse(socket)
    const hear = (data: RawData, isBinary: boolean) => {
      if (isBinary || data.toString() !== ticketKept) return
      socket.off('message', hear)
      store.confirm(pool, sessionId).catch((err) => log.warn({ err }, 'a ticket stays good beside the next one'))
    }
    socket.on('message', hear)
  }

  /** The screen ended first: by what the desktop did, which may be known in a moment, or the way to it broke. */
  async #whyOver({ admission: { sessionId, generation } }: Session): Promise<Ending> {
    for (const waitMs of [0, 1_000]) {
      await sleep(waitMs)
      const known = await store.watched(this.#options.pool, [sessionId]).catch(() => undefined)
      const ending = known?.[0] && endingOf(known[0], generation)
      if (ending) return ending
      if (known?.length === 0) return endings.takenOver
    }
    return endings.hostLost
  }

  #endUnread(session: Session, breach: RfbBreach, log: Log): void {
    const isOurs = breach.by === 'screen'
    log[isOurs ? 'warn' : 'debug']({ err: breach }, 'a screen was ended for what was said')
    this.#end(session, isOurs ? endings.unfollowed : endings.unreadable)
  }

  #end(session: Session, ending: Ending): void {
    if (session.ending) return
    session.ending = ending
    endSocket(session.socket, ending)
  }

  async #leave({ admission: { sessionId }, ending }: Session, log: Log): Promise<void> {
    const letGo = ending?.code === screenCloses.asleep ? store.release : store.leave
    await letGo(this.#options.pool, sessionId).catch((err) => log.warn({ err }, 'a claim was left to run out'))
  }

  async #look(): Promise<void> {
    const sessions = [...this.#sessions.values()]
    const ids = sessions.map(({ admission }) => admission.sessionId)
    if (ids.length === 0) return
    const { pool, principals, log } = this.#options
    try {
      const known = new Map((await store.watched(pool, ids)).map((one) => [one.sessionId, one]))
      const withdrawn = await principals.withdrawn([...known.values()].map(({ holder }) => holder))
      for (const session of sessions) {
        const now = known.get(session.admission.sessionId)
        const ending = whyNoMore(now, withdrawn, session.admission.generation)
        if (ending) this.#end(session, ending)
      }
      await this.#renew(ids)
    } catch (err) {
      log.warn({ err }, 'open screens could not be looked after')
    }
  }

  async #renew(ids: string[]): Promise<void> {
    if (performance.now() - this.#renewedAt < renewEveryMs) return
    this.#renewedAt = performance.now()
    await store.renew(this.#options.pool, ids)
  }
}

function whyNoMore(now: store.Watched | undefined, withdrawn: Set<string>, generation: number): Ending | undefined {
  if (!now) return endings.takenOver
  if (now.expired) return endings.expired
  return withdrawn.has(now.holder) ? endings.revoked : endingOf(now, generation)
}

/** Which of several protocols is spoken is the first one's that is offered. */
const offersTickets = ({ headers }: IncomingMessage): boolean =>
  headers['sec-websocket-protocol']?.split(',', 1)[0]?.trim() === screenProtocol

/** The screen and the token that a path names: `/screens/<desktop>/<claim>/<token>`. */
function screenOf(url: string): (Screen & { token: string }) | undefined {
  const [desktopId, claim, token, more] = (url.split('?', 1)[0] ?? '').split('/').slice(2)
  const known = url.startsWith('/screens/') && (claim === 'view' || claim === 'control') && more === undefined
  if (!known || !desktopId || !isId(desktopId) || !token || !tokenForm.test(token)) return undefined
  return { desktopId: desktopId.toLowerCase(), claim, token }
}
