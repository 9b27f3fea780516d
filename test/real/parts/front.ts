// Stands before the service as the pages see it, and ends each screen as the test says. Pages and files pass as they are.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { EndNote } from '@dormouse/contract'
import { WebSocketServer } from 'ws'

interface Close {
  code: number
  /** What the service sends to a page first. */
  end?: EndNote['end']
}

export class Front {
  readonly #server: Server
  readonly #sockets = new WebSocketServer({ noServer: true })

  private constructor(service: string, close?: Close) {
    this.#server = createServer(async ({ url, headers }, answer) => {
      const {
        status,
        headers: given,
        body,
      } = await fetch(new URL(url ?? '/', service), {
        headers: { host: headers.host ?? '' },
      })
      answer.writeHead(status, [...given].filter(([name]) => !/encoding|length|connection/.test(name)).flat())
      Readable.from(body ?? []).pipe(answer)
    })
    this.#server.on('upgrade', (request, socket, head) =>
      this.#sockets.handleUpgrade(request, socket, head, (screen) => {
        if (close?.end) screen.send(JSON.stringify({ end: close.end } satisfies EndNote))
        if (close) screen.close(close.code)
      }),
    )
  }

  /** If no code is said, screens stay open and silent. */
  static async before(service: string, close?: Close): Promise<Front> {
    const front = new Front(service, close)
    front.#server.listen(0, '127.0.0.1')
    await once(front.#server, 'listening')
    return front
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
