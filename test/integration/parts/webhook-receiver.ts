// A receiver of webhooks: a real HTTP server that keeps what it was sent, and answers as a test wants.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  path: string
  headers: IncomingHttpHeaders
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: the body of an event of any type.
  json: any
}

/** Returns a status, or the response itself. */
type Answer = (received: Received, response: ServerResponse) => number | undefined

export class WebhookReceiver implements AsyncDisposable {
  readonly received: Received[] = []
  answer: Answer = () => 204
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      const received = { path: request.url!, headers: request.headers, text, json: JSON.parse(text) }
      this.received.push(received)
      const status = this.answer(received, response)
      if (status !== undefined) response.writeHead(status, { location: `${this.url}/elsewhere` }).end()
    })
  })

  static async start(): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver()
    await new Promise<void>((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve))
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** What came to this path. */
  at(path: string): Received[] {
    return this.received.filter((each) => each.path === path)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
