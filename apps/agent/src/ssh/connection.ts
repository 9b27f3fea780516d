// One kept SSH connection to the guest of a desktop: dialled when it is needed, dialled again when it was lost, shared by
// all commands and files at once. Knows how to get there, not what it is used for.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Client, ClientChannel } from 'ssh2'
import { noPulse, type Pulse } from '../driver/guest-activity.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { drain, hangUp, openChannels } from './channels.ts'
import { asRefusal, logIn, NotKnown } from './client.ts'
import type { GuestKeys, SshKeys } from './keys.ts'
import { type Door, reach, restMs } from './open-connection.ts'
import { keepVigil, type Witnesses } from './watchdog.ts'

export interface SshLineOptions {
  desktopId: DesktopId
  /** The way to the guest's SSH server; undefined where it has none. */
  door: () => Promise<Door | undefined>
  /** Through which keys are exchanged. */
  agent: GuestTransport
  keys: SshKeys
  pulse?: Pulse
  log: Log
}

/** How long a command may take to be begun in a busy guest; one that is gone is found out by the keepalives. */
const openMs = 20_000
const hopelessMs = 15_000
/** How long a connection is worth waiting for. */
export const patienceMs = 2_500
const probeMs = 1_000
const pulseMs = 500
const queueMaxBytes = 512 * 1024
const queuePauseMs = 5
/** The server takes 100; some are left for what ends others. */
const maxChannels = 90
/** Only a server that never ends any of them has so many. */
const hostileChannels = 256

export class SshLine {
  readonly #options: SshLineOptions
  #dialling: Promise<Client> | undefined
  #client: Client | undefined
  #socket: Socket | undefined
  #lostAt = 0
  #failedAt = 0
  #dialledAt = 0
  #ended = false

  constructor(options: SshLineOptions) {
    this.#options = options
  }

  /** Whether the attempt under way takes long, or the last one failed lately: it is not worth waiting for. */
  get hopeless(): boolean {
    const now = performance.now()
    if (this.#failedAt > 0 && now - this.#failedAt < hopelessMs) return true
    return this.#dialling !== undefined && now - this.#dialledAt > patienceMs
  }

  get connected(): boolean {
    return this.#client !== undefined
  }

  /** Whether one more command can be begun at once. */
  get ready(): boolean {
    return this.#client !== undefined && openChannels(this.#client) < maxChannels
  }

  /** Dials where there is no connection; `guest_unavailable` where none can be had. */
  async connect(): Promise<void> {
    if (this.#client) return
    this.#refuseOnceEnded()
    if (!this.#dialling) this.#dialledAt = performance.now()
    this.#dialling ??= this.#dial()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#dialling = undefined
      })
    await this.#dialling
  }

  /**
   * Begins a command, as the guest's shell reads it, and hands its channel to `wrap` in the very tick it opens, so that not
   * even its end is missed. One that opens when nobody waits for it any more is handed to `late`.
   */
  async open<T>(script: string, wrap: (channel: ClientChannel) => T, late = hangUp): Promise<T> {
    const client = this.#client ?? refuse('guest_unavailable', 'the guest’s SSH server is not connected')
    if (openChannels(client) >= hostileChannels) this.close()
    const opened = Promise.withResolvers<T>()
    let gaveUp = false
    const giveUp = () => {
      gaveUp = true
      opened.reject(new Refusal('guest_unavailable', 'the guest is too busy to begin it'))
    }
    const timer = setTimeout(giveUp, openMs)
    const lost = () => opened.reject(new Refusal('guest_unavailable', 'the connection to the guest was lost'))
    client.once('close', lost)
    try {
      client.exec(script, (error, channel) => {
        if (error) return opened.reject(asRefusal(error))
        if (gaveUp) late(channel)
        else opened.resolve(wrap(channel))
      })
      return await opened.promise
    } catch (error) {
      // A client that lost its connection this very moment throws.
      throw error instanceof Refusal ? error : asRefusal(error as Error)
    } finally {
      clearTimeout(timer)
      client.off('close', lost)
    }
  }

  /** Work in the guest that nobody waits for. A guest that is gone needs it no more; any other failure is logged. */
  aside(work: Promise<unknown>): void {
    const { desktopId, log } = this.#options
    work.catch((err: unknown) => {
      if (!(err instanceof Refusal)) log.error({ err, desktopId }, 'work beside a guest’s commands failed')
    })
  }

  /** Waits until little is on its way: what many transfers have queued would hold up all else on the connection. */
  async room(): Promise<void> {
    while (this.#client && this.#socket && this.#socket.writableLength > queueMaxBytes) await sleep(queuePauseMs)
  }

  /** Ends a connection whose other end does not answer although it is not busy. */
  probe(): void {
    const client = this.#client
    if (!client) return
    let answered = false
    const giveUp = async () => {
      const busy = await this.#options.pulse?.busy(pulseMs)
      if (!busy && !answered && this.#client === client) this.close()
    }
    const timer = setTimeout(() => this.aside(giveUp()), probeMs)
    const exchange = async () => {
      await this.#exchange()
      answered = true
    }
    this.aside(exchange().finally(() => clearTimeout(timer)))
  }

  /** Lets go of the connection; the guest goes on. */
  close(): void {
    const client = this.#client
    if (!client) return
    // Whoever dials from now on gets another.
    this.#lost(client)
    // Not ssh2's own `destroy`, which leaves a socket that its server has made it end.
    this.#socket?.destroy()
  }

  /** Lets go of the connection for good: nobody dials again, and what is being dialled is let go of. */
  end(): void {
    this.#ended = true
    this.close()
  }

  #refuseOnceEnded(): void {
    if (this.#ended) refuse('guest_unavailable', 'the connection to the guest was given up')
  }

  #failed(error: unknown): never {
    const { desktopId, log } = this.#options
    this.#failedAt = performance.now()
    if (error instanceof Refusal) log.debug({ err: error, desktopId }, 'the guest is not reached over SSH')
    else log.error({ err: error, desktopId }, 'the connection to a guest failed')
    return refuse('guest_unavailable', 'the guest is not reached over SSH')
  }

  async #dial(): Promise<Client> {
    const { desktopId, door, keys, agent, log } = this.#options
    const way = (await door()) ?? refuse('guest_unavailable', 'the guest has no way in for SSH')
    const known = await keys.read(desktopId)
    try {
      if (known) return await this.#login(way, known)
    } catch (error) {
      if (!(error instanceof NotKnown)) throw error
      log.info({ desktopId }, 'the guest does not know its host any more; keys are exchanged anew')
    }
    return this.#login(way, await keys.exchange(desktopId, agent, 'path' in way ? 'port' : 'network'))
  }

  async #login(way: Door, keys: GuestKeys): Promise<Client> {
    const restLeftMs = this.#lostAt + restMs - performance.now()
    if (this.#lostAt > 0 && restLeftMs > 0) await sleep(restLeftMs)
    this.#refuseOnceEnded()
    try {
      return await this.#begin(await reach(way, () => !this.#ended), keys)
    } catch (error) {
      this.#lostAt = performance.now()
      throw error
    }
  }

  async #begin(socket: Socket, keys: GuestKeys): Promise<Client> {
    const client = await logIn(socket, keys)
    if (this.#ended) socket.destroy()
    this.#refuseOnceEnded()
    this.#client = client
    this.#socket = socket
    client.once('close', () => this.#lost(client))
    keepVigil(socket, this.#witnesses(), () => this.close())
    return client
  }

  #witnesses(): Witnesses {
    const { agent, pulse = noPulse } = this.#options
    const elsewhere = () =>
      agent.ping().then(
        () => true,
        () => false,
      )
    return { pulse, elsewhere, nudge: () => this.aside(this.#exchange()) }
  }

  /** A command of no consequence, which a server that lives begins at once. */
  #exchange(): Promise<void> {
    return this.open('exit', drain)
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    this.#lostAt = performance.now()
  }
}
