// What a replica of the control plane has for relays, and nothing else of it.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { DialBack } from '@dormouse/agent/commands/handler.ts'
import { newId } from '@dormouse/contract'
import { Channels } from '@dormouse/control-plane/agents/channels.ts'
import { type Relay, Relays } from '@dormouse/control-plane/agents/relays.ts'
import { dialChannel } from '@dormouse/link'
import { listenOnLoopback, openDoors } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'

export class RelayServer {
  readonly #server: Server
  readonly #channels = new Channels()
  readonly #relays = new Relays({
    channels: this.#channels,
    mibPerSec: 1_000,
    log: createLog({ name: 'relays', level: 'silent' }),
  })
  #port = 0

  private constructor(server: Server) {
    this.#server = server
    this.#channels.attach(openDoors(server), () => undefined)
  }

  static async start(): Promise<RelayServer> {
    const started = new RelayServer(createServer())
    started.#port = await listenOnLoopback(started.#server)
    return started
  }

  /** How many are open. */
  get open(): number {
    return this.#relays.open
  }

  between(): Relay {
    const signal = new AbortController().signal
    return this.#relays.between({ operationId: newId(), hostIds: ['old', 'new'], signal })
  }

  readonly dialBack: DialBack = (token, signal) =>
    dialChannel({ url: `ws://127.0.0.1:${this.#port}/agent/v1/channels/${token}`, signal })

  async [Symbol.asyncDispose](): Promise<void> {
    this.#relays.closeAll()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
