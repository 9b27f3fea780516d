// The door for WebSockets on an HTTP server that serves other things too: whoever may not come in
// gets a proper HTTP answer before any upgrade. Knows nothing of credentials; each door brings its own check.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import type { LinkLog } from './peer.ts'
import { closeSocket, defaultMaxFrameBytes } from './sockets.ts'

/** What `authenticate` answers to one who may not come in. The detail is shown to him. */
export class UpgradeRefusal {
  readonly status: number
  readonly detail: string
  readonly headers: Record<string, string>
  /** For programs, where the status does not say enough. */
  readonly code: string | undefined

  constructor(status: number, detail: string, headers: Record<string, string> = {}, code?: string) {
    this.status = status
    this.detail = detail
    this.headers = headers
    this.code = code
  }
}

export interface Door<Context> {
  path: (pathname: string) => boolean
  /** Whether the limit on newcomers is not for this one: he was let in lately, or shows what only such a one has. */
  knows?: (request: IncomingMessage) => Promise<boolean> | boolean
  authenticate: (request: IncomingMessage) => Promise<Context | UpgradeRefusal> | Context | UpgradeRefusal
  /** Which of the subprotocols that were offered is spoken; the first one by default. */
  protocol?: (offered: ReadonlySet<string>) => string | false
  /** Wrap the socket in the same tick (`new Peer`, `new Channel`, `shakeHands`), so that no message is missed. */
  onSocket: (socket: WebSocket, context: Context, request: IncomingMessage) => void
}

export interface UpgradeOptions {
  log?: LinkLog
  maxFrameBytes?: number
  /** Counts one whom no door knows, before any door looks; what it answers is one too many. */
  admit?: (request: IncomingMessage) => UpgradeRefusal | undefined
  /** Tells one who may not come in, and hangs up. */
  answer: (socket: Duplex, refusal: UpgradeRefusal) => void
  /** What one is told whose path no door knows. */
  nowhere: string
}

/** Takes over the server's upgrade requests; add doors to it. */
export function acceptUpgrades(server: Server, options: UpgradeOptions): Upgrades {
  return new Upgrades(server, options)
}

export class Upgrades {
  readonly #webSockets: WebSocketServer
  readonly #doors: Door<unknown>[] = []
  readonly #log: LinkLog | undefined
  readonly #admit: UpgradeOptions['admit']
  readonly #answer: (socket: Duplex, refusal: UpgradeRefusal) => void
  readonly #nowhere: UpgradeRefusal
  #closing = false

  constructor(server: Server, { log, maxFrameBytes = defaultMaxFrameBytes, admit, answer, nowhere }: UpgradeOptions) {
    this.#log = log
    this.#admit = admit
    this.#answer = answer
    this.#nowhere = new UpgradeRefusal(404, nowhere)
    this.#webSockets = new WebSocketServer({
      noServer: true,
      maxPayload: maxFrameBytes,
      perMessageDeflate: false,
      handleProtocols: (offered, request) => this.#protocolFor(offered, request),
    })
    this.#webSockets.on('wsClientError', (error, socket) =>
      this.#answer(socket, new UpgradeRefusal(400, error.message, { 'sec-websocket-version': '13' })),
    )
    // Asked for by path first and then by credential, and only then whether it is a WebSocket handshake at all.
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on('error', (err) => this.#log?.debug({ err }, 'a socket failed before its upgrade'))
      this.#enter(request, socket, head).catch((err: unknown) => this.#giveUp(socket, err))
    })
  }

  add<Context>(door: Door<Context>): void {
    this.#doors.push(door as Door<unknown>)
  }

  /** Turns newcomers away with 503 and ends every socket that came in. */
  async close(code = 1001, reason = 'going away'): Promise<void> {
    this.#closing = true
    await Promise.all([...this.#webSockets.clients].map((socket) => closeSocket(socket, code, reason)))
  }

  async #enter(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    try {
      const door = await this.#doorFor(request)
      const context = door instanceof UpgradeRefusal ? door : await door.authenticate(request)
      if (context instanceof UpgradeRefusal) this.#answer(socket, context)
      else if (this.#closing) this.#answer(socket, goingAway)
      else if (!(door instanceof UpgradeRefusal)) this.#upgrade(door, context, request, socket, head)
    } catch (err) {
      this.#log?.error({ err }, 'an upgrade failed')
      this.#answer(socket, new UpgradeRefusal(500, 'the request could not be served'))
    }
  }

  /** Not even an answer could be given. */
  #giveUp(socket: Duplex, err: unknown): void {
    this.#log?.error({ err }, 'a refused upgrade could not be answered')
    socket.destroy()
  }

  async #doorFor(request: IncomingMessage): Promise<Door<unknown> | UpgradeRefusal> {
    if (this.#closing) return goingAway
    const door = this.#doorAt(request)
    const isKnown = await door?.knows?.(request)
    return (isKnown ? undefined : this.#admit?.(request)) ?? door ?? this.#nowhere
  }

  #doorAt({ url = '/' }: IncomingMessage): Door<unknown> | undefined {
    const pathname = url.split('?', 1)[0] ?? '/'
    return this.#doors.find((door) => door.path(pathname))
  }

  #protocolFor(offered: Set<string>, request: IncomingMessage): string | false {
    const [first = false] = offered
    return this.#doorAt(request)?.protocol?.(offered) ?? first
  }

  #upgrade(door: Door<unknown>, context: unknown, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (socket.destroyed) return
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      // Whoever takes it in listens, too; until then, and where nobody does, its failure is no one else's.
      webSocket.on('error', (err) => this.#log?.debug({ err }, 'a socket failed'))
      try {
        door.onSocket(webSocket, context, request)
      } catch (err) {
        this.#log?.error({ err }, 'a socket could not be taken in')
        webSocket.terminate()
      }
    })
  }
}

const goingAway = new UpgradeRefusal(503, 'this process is closing; another one will answer', { 'retry-after': '1' })
