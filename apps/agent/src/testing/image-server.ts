// A web server with an image, and with faults on request.
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ImageRef } from '@dormouse/contract'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

export class ImageServer {
  readonly files = new Map<string, Buffer>()
  readonly requests: string[] = []
  /** Answers instead of the server; undefined leaves a request to it. */
  instead: ((file: string, from: number) => Answer | undefined) | undefined
  readonly #server = createServer((request, response) => this.#answer(request, response))

  /** Serves `mini@1`, whose disk has this many random bytes. */
  static async start(diskBytes = 1_000_000, more: object = {}): Promise<ImageServer> {
    const server = new ImageServer()
    server.put('mini', '1', diskBytes, more)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  /** Replaces what is served. */
  put(name: string, version: string, diskBytes: number, more: object = {}): void {
    this.files.set('vmlinuz', randomBytes(1_000))
    this.files.set('initrd', randomBytes(2_000))
    this.files.set('disk.qcow2', randomBytes(diskBytes))
    const file = (of: string) => {
      const bytes = this.files.get(of)!
      return { file: of, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
    }
    const manifest = {
      name,
      version,
      machine: 'pc',
      kernel: file('vmlinuz'),
      initrd: file('initrd'),
      disk: { ...file('disk.qcow2'), virtual_size_bytes: 1024 ** 2 },
      cmdline: 'quiet',
      ...more,
    }
    this.files.set('manifest.json', Buffer.from(JSON.stringify(manifest)))
  }

  /** As the registry has it. */
  ref(more: Partial<ImageRef> = {}): ImageRef {
    const manifest = this.files.get('manifest.json')!
    const { name, version } = JSON.parse(manifest.toString()) as { name: string; version: string }
    const digest = createHash('sha256').update(manifest).digest('hex')
    const bytes = ['vmlinuz', 'initrd', 'disk.qcow2'].reduce((sum, file) => sum + this.files.get(file)!.length, 0)
    return { name, version, digest, source: this.url, bytes, ...more }
  }

  /** The next request for the file gets half of it. Returns what sends the rest, once such a request has come. */
  sendHalf(file: string): Promise<() => void> {
    const { promise, resolve } = Promise.withResolvers<() => void>()
    this.instead = (requested) => {
      if (requested !== file) return undefined
      this.instead = undefined
      return (_request, response) => {
        const bytes = this.files.get(file)!
        const half = Math.floor(bytes.length / 2)
        response.writeHead(200, { 'content-length': bytes.length }).write(bytes.subarray(0, half))
        resolve(() => response.end(bytes.subarray(half)))
      }
    }
    return promise
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const file = (request.url ?? '').slice(1)
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
    this.requests.push(`${file} ${from}`)
    const other = this.instead?.(file, from)
    if (other) {
      other(request, response)
      return
    }
    const bytes = this.files.get(file)
    if (!bytes) return void response.writeHead(404).end()
    if (from === 0) return void response.writeHead(200, { 'content-length': bytes.length }).end(bytes)
    const range = `bytes ${from}-${bytes.length - 1}/${bytes.length}`
    response.writeHead(206, { 'content-range': range }).end(bytes.subarray(from))
  }
}
