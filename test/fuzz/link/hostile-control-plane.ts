// The server that a real agent dials: one address behaves, so that it is seen whether the agent goes on, and the others hand
// each dial to whoever waits for it. Knows no input.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { linkSubprotocol, newId } from '@dormouse/contract'
import { Peer } from '@dormouse/link'
import { type WebSocket, WebSocketServer } from 'ws'

/** An upgrade that nobody has answered yet. */
export interface Dial {
  request: IncomingMessage
  socket: Duplex
  head: Buffer
}

const dialPatienceMs = 20_000

export class HostileControlPlane {
  readonly hostId = newId()
  /** The agent's own heartbeats on the address that behaves. */
  beats = 0
  /** What becomes of the channels that the agent dials. */
  onChannel: (socket: WebSocket) => void = (socket) => socket.terminate()
  readonly #lines: number
  readonly #installationId = newId()
  readonly #server = createServer((request, response) => void this.#enrol(request).then((body) => response.end(body)))
  readonly #webSockets = new WebSocketServer({ noServer: true, handleProtocols: () => linkSubprotocol })
  readonly #waiting = new Map<number, (dial: Dial) => void>()
  readonly #early = new Map<number, Dial>()
  #peer: Peer | undefined

  constructor(lines: number) {
    this.#lines = lines
    this.#server.on('upgrade', (request, socket, head) => this.#dialled({ request, socket, head }))
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** The base URL of one line; 0 is the one that behaves. */
  base(line: number): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${line}`
  }

  /** The link of the address that behaves. */
  get peer(): Peer | undefined {
    return this.#peer?.closed ? undefined : this.#peer
  }

  /** What the agent is told in earnest. */
  welcome(line: number): object {
    const replicaId = `00000000-0000-7000-8000-${String(line).padStart(12, '0')}`
    const replicas = Array.from({ length: this.#lines + 1 }, (_, at) => this.base(at))
    return { hostId: this.hostId, replicaId, epoch: 1, heartbeatMs: 100, replicas }
  }

  /** The agent's next dial of that line; undefined if none comes. */
  async next(line: number): Promise<Dial | undefined> {
    const early = this.#early.get(line)
    this.#early.delete(line)
    if (early && !early.socket.destroyed) return early
    const { promise, resolve } = Promise.withResolvers<Dial | undefined>()
    const timer = setTimeout(() => resolve(undefined), dialPatienceMs)
    this.#waiting.set(line, resolve)
    return promise.finally(() => clearTimeout(timer))
  }

  /** Lets a dial in as a WebSocket that has proved nothing yet. */
  admit({ request, socket, head }: Dial): Promise<WebSocket> {
    const { promise, resolve } = Promise.withResolvers<WebSocket>()
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      webSocket.on('error', () => undefined)
      resolve(webSocket)
    })
    return promise
  }

  /** Challenges the agent, and believes whatever it answers. */
  async prove(webSocket: WebSocket): Promise<void> {
    webSocket.send(JSON.stringify({ nonce: randomBytes(32).toString('base64url') }))
    const heard = Promise.withResolvers<void>()
    webSocket.once('message', () => heard.resolve()).once('close', () => heard.resolve())
    if (webSocket.readyState === webSocket.OPEN) await heard.promise
    webSocket.send(JSON.stringify({ accepted: true }), () => undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#webSockets.clients) client.terminate()
    for (const { socket } of this.#early.values()) socket.destroy()
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #enrol(request: IncomingMessage): Promise<string> {
    await request.resume().toArray()
    return JSON.stringify({ host_id: this.hostId, installation_id: this.#installationId })
  }

  #dialled(dial: Dial): void {
    dial.socket.on('error', () => undefined)
    const [, line, , , what] = (dial.request.url ?? '').split('/')
    if (what === 'channels') return void this.admit(dial).then((socket) => this.onChannel(socket))
    if (Number(line) === 0) return void this.#behave(dial)
    const waiting = this.#waiting.get(Number(line))
    this.#waiting.delete(Number(line))
    if (waiting) waiting(dial)
    else this.#early.set(Number(line), dial)
  }

  async #behave(dial: Dial): Promise<void> {
    const webSocket = await this.admit(dial)
    await this.prove(webSocket)
    if (webSocket.readyState !== webSocket.OPEN) return
    const { replicas } = this.welcome(0) as { replicas: string[] }
    this.#peer = new Peer(webSocket, {
      handlers: {
        'host.hello': async () => this.welcome(0),
        'host.heartbeat': async () => {
          this.beats++
          return { replicas, leads: true }
        },
      },
    })
  }
}
