// The connection to libvirt's daemon: retries until it succeeds, and reports meanwhile what is wrong and what to do.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '@dormouse/contract'
import { type HostEvent, LibvirtHost } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import type { CallObserver } from './settings.ts'

const retryMs = 1_000
const remedy =
  'install and start it (Debian: apt-get install libvirt-daemon-system qemu-system-x86), or set DORMOUSE_AGENT_LIBVIRT_SOCKET'

/** Where the daemon listens, and which of its drivers to use. */
interface Address {
  socketPath: string
  uri?: string
  observeCall?: CallObserver | undefined
}

export class Session {
  readonly #address: Address
  readonly #log: Log
  readonly #closing = new AbortController()
  readonly #onEvent: (event: HostEvent) => void
  #host: LibvirtHost | undefined
  #cause = 'not connected yet'

  constructor({ socketPath, uri, observeCall }: Address, log: Log, onEvent: (event: HostEvent) => void) {
    this.#address = { socketPath, ...(uri && { uri }), observeCall }
    this.#log = log
    this.#onEvent = onEvent
  }

  /** Tries once, and retries in the background if that failed. */
  async begin(): Promise<void> {
    if (await this.#try()) return
    void this.#retry()
  }

  /** The connection; `host_unreachable` while there is none. */
  get host(): LibvirtHost {
    if (this.#host?.isUp) return this.#host
    throw new Refusal('host_unreachable', 'libvirt on the desktop’s host does not answer')
  }

  /** Null while the daemon answers. */
  get problem(): string | null {
    if (this.#host?.isUp) return null
    return `libvirt does not answer at ${this.#address.socketPath} (${this.#cause}); ${remedy}`
  }

  close(): void {
    this.#closing.abort()
    this.#host?.close()
  }

  async #retry(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted && !(await this.#try())) {
      await sleep(retryMs, undefined, { signal }).catch(() => undefined)
    }
    if (!signal.aborted) this.#onEvent({ type: 'gap' })
  }

  async #try(): Promise<boolean> {
    try {
      const log = { info: this.#log.info.bind(this.#log), warn: this.#log.warn.bind(this.#log) }
      const host = await LibvirtHost.open({ ...this.#address, log })
      if (this.#closing.signal.aborted) host.close()
      this.#host = host
      host.on('event', (event) => this.#onEvent(event))
      host.on('down', (why) => {
        this.#cause = why.message
      })
      return true
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      if (why !== this.#cause) this.#log.warn({ err: error }, 'libvirt does not answer')
      this.#cause = why
      return false
    }
  }
}
