// A program that joins an exec over its WebSocket, by hand, so that a test can also send what the SDK never would.
import { type AttachNote, type AttachRequest, attachChannels, type ExecStream } from '@dormouse/contract'
import { WebSocket } from 'ws'
import { waitFor } from '../../wait-for.ts'

export class ExecClient {
  readonly socket: WebSocket
  readonly notes: AttachNote[] = []
  readonly said: Record<ExecStream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
  #closing: { code: number; reason: string } | undefined

  constructor(url: string, key: string | undefined, protocols: string[] = []) {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
    this.socket = new WebSocket(url.replace('http', 'ws'), protocols, { headers })
    this.socket.on('message', (data) => this.#hear(data as Buffer))
    this.socket.on('unexpected-response', (_request, response) => {
      this.#closing = { code: response.statusCode ?? 0, reason: '' }
      response.destroy()
    })
    this.socket.on('error', () => undefined)
    this.socket.on('close', (code, reason) => {
      this.#closing ??= { code, reason: reason.toString() }
    })
  }

  /** The close code, or the status that came instead of a socket. */
  get closed(): Promise<{ code: number; reason: string }> {
    return waitFor('the socket to be closed', () => this.#closing)
  }

  /** The first note with that name. */
  note<K extends string>(name: K): Promise<Extract<AttachNote, Record<K, unknown>>> {
    return waitFor(`the note ${name}`, () => this.notes.find((note) => name in note)) as Promise<never>
  }

  /** Waits until the stream has said so much. */
  async heard(text: string, stream: ExecStream = 'stdout'): Promise<void> {
    await waitFor(`"${text}"`, () => this.said[stream].includes(text))
  }

  type(text: string): void {
    this.send(attachChannels.stdin, text)
  }

  ask(request: AttachRequest): void {
    this.send(attachChannels.control, JSON.stringify(request))
  }

  send(channel: number, text: string): void {
    this.socket.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]))
  }

  #hear(data: Buffer): void {
    const [channel, body] = [data[0], data.subarray(1)]
    if (channel === attachChannels.control) this.notes.push(JSON.parse(body.toString()) as AttachNote)
    else {
      const stream = channel === attachChannels.stdout ? 'stdout' : 'stderr'
      this.said[stream] = Buffer.concat([this.said[stream], body])
    }
  }
}
