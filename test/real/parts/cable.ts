// A cable between a browser and the service that can be pulled out and put back. Knows nothing of what passes.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export class Cable {
  readonly #sockets = new Set<Socket>()
  readonly #server: Server
  #leadsTo: number
  #isCut = false

  private constructor(port: number) {
    this.#leadsTo = port
    this.#server = createServer((near) => this.#join(near))
  }

  static async to(port: number): Promise<Cable> {
    const cable = new Cable(port)
    cable.#server.listen(0, '127.0.0.1')
    await once(cable.#server, 'listening')
    return cable
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  cut(): void {
    this.#isCut = true
    for (const socket of this.#sockets) socket.destroy()
  }

  mend(): void {
    this.#isCut = false
  }

  /** Whoever connects from now on comes out there. */
  moveTo(port: number): void {
    this.#leadsTo = port
  }

  #join(near: Socket): void {
    if (this.#isCut) return void near.destroy()
    const far = connect(this.#leadsTo, '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(one)
      one.setNoDelay(true)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut()
    this.#server.close()
  }
}
