// WebSocket upgrades on an HTTP server that serves other requests too. A request that is refused gets an HTTP response, and
// no upgrade. Knows no credentials: each route brings its own check.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import type { LinkLog } from './link-log.ts'
import { closeSocket, defaultMaxFrameBytes } from './sockets.ts'
import { countUnfinished } from './unfinished-messages.ts'

/** What `authenticate` returns to refuse a request. The client is shown the detail. */
export class UpgradeRefusal {
  readonly status: number
  readonly detail: string
  readonly headers: Record<string, string>
  /** For programs, if the status is not enough. */
  readonly code: string | undefined

  constructor(status: number, detail: string, headers: Record<string, string> = {}, code?: string) {
    this.status = status
    this.detail = detail
    this.headers = headers
    this.code = code
  }
}

export interface UpgradeRoute<Context> {
  path: (pathname: string) => boolean
  /** The longest message; a longer one closes the socket before it is read. By default the limit of a link. */
  maxFrameBytes?: number
  /** Counts what a client has sent of messages that are not whole; throws above a limit. Absent for hosts. */
  hold?: (request: IncomingMessage, bytes: number) => Disposable
  /** True exempts a client from the limit on unauthenticated ones: it was admitted lately, or shows that it was. */
  knows?: (request: IncomingMessage) => Promise<boolean> | boolean
  authenticate: (request: IncomingMessage) => Promise<Context | UpgradeRefusal> | Context | UpgradeRefusal
  /** Further headers of the response that opens the socket. */
  headers?: (context: Context) => Record<string, string>
  /** Chooses one of the offered subprotocols; the first by default. */
  protocol?: (offered: ReadonlySet<string>) => string | false
  /** Must wrap the socket in the same tick (`new Peer`, `new Channel`, `shakeHands`), so that no message is missed. */
  onSocket: (socket: WebSocket, context: Context, request: IncomingMessage) => void
}

export interface UpgradeOptions {
  log?: LinkLog
  /** Counts an unauthenticated client before its credential is checked. Returns a refusal above the limit. */
  admit?: (request: IncomingMessage) => UpgradeRefusal | undefined
  /** Sends the refusal and closes the connection. */
  answer: (socket: Duplex, refusal: UpgradeRefusal) => void
  /** For a path without a route. */
  nowhere: UpgradeRefusal
}

/** Takes over the server's upgrade requests; add routes to it. */
export function acceptUpgrades(server: Server, options: UpgradeOptions): Upgrades {
  return new Upgrades(server, options)
}

export class Upgrades {
  /** Each route with the server that takes its sockets. */
  readonly #routes = new Map<UpgradeRoute<unknown>, WebSocketServer>()
  readonly #log: LinkLog | undefined
  readonly #admit: UpgradeOptions['admit']
  readonly #answer: (socket: Duplex, refusal: UpgradeRefusal) => void
  readonly #nowhere: UpgradeRefusal
  /** Further headers of the response to a request. */
  readonly #headers = new WeakMap<IncomingMessage, Record<string, string>>()
  #closing = false

  constructor(server: Server, { log, admit, answer, nowhere }: UpgradeOptions) {
    this.#log = log
    this.#admit = admit
    this.#answer = answer
    this.#nowhere = nowhere
    // Checked in this order: the path, the credential, and whether the request is a WebSocket handshake.
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on('error', (err) => this.#log?.debug({ err }, 'a socket failed before its upgrade'))
      this.#enter(request, socket, head).catch((err: unknown) => this.#abandon(socket, err))
    })
  }

  add<Context>(route: UpgradeRoute<Context>): void {
    const webSockets = new WebSocketServer({
      noServer: true,
      maxPayload: route.maxFrameBytes ?? defaultMaxFrameBytes,
      perMessageDeflate: false,
      handleProtocols: (offered) => {
        const [first = false] = offered
        return route.protocol?.(offered) ?? first
      },
    })
    webSockets.on('wsClientError', (error, socket) =>
      this.#answer(socket, new UpgradeRefusal(400, error.message, { 'sec-websocket-version': '13' })),
    )
    webSockets.on('headers', (lines, request) => {
      for (const [name, value] of Object.entries(this.#headers.get(request) ?? {})) lines.push(`${name}: ${value}`)
    })
    this.#routes.set(route as UpgradeRoute<unknown>, webSockets)
  }

  /** Refuses new requests with 503 and closes every open socket. */
  async close(code = 1001, reason = 'going away'): Promise<void> {
    this.#closing = true
    const sockets = [...this.#routes.values()].flatMap(({ clients }) => [...clients])
    await Promise.all(sockets.map((socket) => closeSocket(socket, code, reason)))
  }

  async #enter(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    try {
      const route = await this.#routeFor(request)
      const context = route instanceof UpgradeRefusal ? route : await route.authenticate(request)
      if (context instanceof UpgradeRefusal) this.#answer(socket, context)
      else if (this.#closing) this.#answer(socket, goingAway)
      else if (!(route instanceof UpgradeRefusal)) this.#upgrade(route, context, request, socket, head)
    } catch (err) {
      this.#log?.error({ err }, 'an upgrade failed')
      this.#answer(socket, new UpgradeRefusal(500, 'the request could not be served'))
    }
  }

  /** Not even a refusal could be sent. */
  #abandon(socket: Duplex, err: unknown): void {
    this.#log?.error({ err }, 'a refused upgrade could not be answered')
    socket.destroy()
  }

  async #routeFor(request: IncomingMessage): Promise<UpgradeRoute<unknown> | UpgradeRefusal> {
    if (this.#closing) return goingAway
    const route = this.#routeAt(request)
    const isKnown = await route?.knows?.(request)
    return (isKnown ? undefined : this.#admit?.(request)) ?? route ?? this.#nowhere
  }

  #routeAt({ url = '/' }: IncomingMessage): UpgradeRoute<unknown> | undefined {
    const pathname = url.split('?', 1)[0] ?? '/'
    return [...this.#routes.keys()].find((route) => route.path(pathname))
  }

  #upgrade(
    route: UpgradeRoute<unknown>,
    context: unknown,
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
  ): void {
    if (socket.destroyed) return
    if (route.headers) this.#headers.set(request, route.headers(context))
    this.#routes.get(route)!.handleUpgrade(request, socket, head, (webSocket) => {
      // The route adds its own listener. Without one, a failing socket would end the process.
      webSocket.on('error', (err) => this.#log?.debug({ err }, 'a socket failed'))
      const { hold } = route
      if (hold) countUnfinished(webSocket, socket, (bytes) => hold(request, bytes))
      try {
        route.onSocket(webSocket, context, request)
      } catch (err) {
        this.#log?.error({ err }, 'a route failed to take a socket')
        webSocket.terminate()
      }
    })
  }
}

const goingAway = new UpgradeRefusal(503, 'this process is closing; retry, and another one will respond', {
  'retry-after': '1',
})
