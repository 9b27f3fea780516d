// Stands between a stack and its Postgres, on loopback, and loses the answers to commits: those take effect, but the client
// never learns it. It recognises two statements of Postgres by their text.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

interface Loss {
  /** Texts, each of which stands in one transaction whose commit's answer is held. */
  awaited: Set<string>
  /** After it nothing answers any more, until `back`. */
  forGood: boolean
  /** The commit itself is lost, not its answer: nothing takes effect. */
  unasked?: boolean
  lost: PromiseWithResolvers<void>
}

const pattern = /\bbegin\b|\bcommit\0/g
const ended = /\b(COMMIT|ROLLBACK)\0/

export class LossyDatabase {
  readonly #server: Server
  readonly #url: URL
  readonly #sockets = new Set<Socket>()
  #loss: Loss | undefined
  #away = false

  private constructor(url: string) {
    this.#url = new URL(url)
    this.#server = createServer({ noDelay: true }, (client) => this.#join(client))
  }

  /** Before the Postgres at that URL. */
  static async start(url: string): Promise<LossyDatabase> {
    const database = new LossyDatabase(url)
    database.#server.listen(0, '127.0.0.1')
    await once(database.#server, 'listening')
    return database
  }

  /** The same server, by this way. */
  get url(): string {
    const url = new URL(this.#url)
    url.hostname = '127.0.0.1'
    url.port = String((this.#server.address() as AddressInfo).port)
    return url.href
  }

  /**
   * The next transaction that contains the text takes effect, and its connection is closed. Resolves when that has happened.
   */
  loseCommitOf(text: string): Promise<void> {
    return this.#lose({ awaited: new Set([text]), forGood: false, lost: Promise.withResolvers() })
  }

  /** The same for the transactions that contain these texts; when all have taken effect, nothing answers until `back`. */
  dieAtCommitsOf(texts: string[]): Promise<void> {
    return this.#lose({ awaited: new Set(texts), forGood: true, lost: Promise.withResolvers() })
  }

  /** The next transaction that contains the text is lost with its connection before its commit is sent. */
  loseBeforeCommitOf(text: string): Promise<void> {
    return this.#lose({ awaited: new Set([text]), forGood: false, unasked: true, lost: Promise.withResolvers() })
  }

  back(): void {
    this.#away = false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #lose(loss: Loss): Promise<void> {
    this.#loss = loss
    return loss.lost.promise
  }

  #join(client: Socket): void {
    if (this.#away) return void client.resetAndDestroy()
    const server = connect({ host: this.#url.hostname, port: Number(this.#url.port), noDelay: true })
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
    }
    this.#carry(client, server)
  }

  /** A transaction's words are gathered from its `begin` on; what answers the commit of one that is awaited is kept back. */
  #carry(client: Socket, server: Socket): void {
    let said = ''
    let swallows: string | undefined
    client.on('data', (bytes) => {
      const text = bytes.toString('latin1')
      const [first] = text.match(pattern) ?? []
      said = first === 'begin' ? text : said + text
      if (text.includes('commit\0')) swallows = [...(this.#loss?.awaited ?? [])].find((each) => said.includes(each))
      if (swallows !== undefined && this.#loss?.unasked) this.#swallowed(swallows, client)
      else server.write(bytes)
    })
    let answered = ''
    server.on('data', (bytes) => {
      if (swallows === undefined) return void client.write(bytes)
      // The commit may have been sent together with statements that are answered before it.
      answered += bytes.toString('latin1')
      if (ended.test(answered)) this.#swallowed(swallows, client)
    })
  }

  #swallowed(text: string, client: Socket): void {
    const loss = this.#loss!
    loss.awaited.delete(text)
    if (!loss.forGood) client.resetAndDestroy()
    if (loss.awaited.size > 0) return
    this.#away = loss.forGood
    if (loss.forGood) for (const socket of this.#sockets) socket.resetAndDestroy()
    this.#loss = undefined
    loss.lost.resolve()
  }
}
