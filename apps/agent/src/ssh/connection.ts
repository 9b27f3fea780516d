// The SSH connection to a desktop's guest: opened when it is needed, opened again when it was lost, shared by all commands
// and files. Knows nothing of what it is used for.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Client, ClientChannel } from 'ssh2'
import type { SshAddress } from '../driver/guest-access.ts'
import { type GuestActivity, unknownActivity } from '../driver/guest-activity.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { sshLimits } from '../scripts/limits.ts'
import { discardOutput, openChannelCount, postponeKeepalive } from './channels.ts'
import type { GuestKeys, SshKeys } from './keys.ts'
import { KeysRejected, logIn } from './login.ts'
import { openChannel } from './open-channel.ts'
import { openConnection } from './open-connection.ts'
import { watchConnection } from './watchdog.ts'

export interface SshConnectionOptions {
  desktopId: DesktopId
  /** Where the guest's SSH server listens; undefined if it has none. */
  address: () => Promise<SshAddress | undefined>
  /** Exchanges keys, and answers whether the guest is alive. */
  agent: GuestTransport
  keys: SshKeys
  activity?: GuestActivity
  log: Log
}

const capacityPollMs = 5

export class SshConnection {
  readonly #options: SshConnectionOptions
  #connecting: Promise<Client> | undefined
  #client: Client | undefined
  #socket: Socket | undefined
  #lostAt = 0
  #failedAt = 0
  #connectingSince = 0
  #isEnded = false
  #isResting = false

  constructor(options: SshConnectionOptions) {
    this.#options = options
  }

  /** Whether connecting takes long, or failed recently: then it is not worth waiting for. */
  get isSlow(): boolean {
    const now = performance.now()
    if (this.#failedAt > 0 && now - this.#failedAt < sshLimits.connectFailedMs) return true
    return this.#connecting !== undefined && now - this.#connectingSince > sshLimits.connectWaitMs
  }

  get isConnected(): boolean {
    return this.#client !== undefined
  }

  /** Whether one more command can start at once. */
  get isReady(): boolean {
    return this.#client !== undefined && !this.#isResting && openChannelCount(this.#client) < sshLimits.channels
  }

  /** Connects if there is no connection; `guest_unavailable` if that fails. One that rests is used again. */
  async connect(): Promise<void> {
    this.#isResting = false
    if (this.#client) return
    this.#refuseOnceEnded()
    if (!this.#connecting) this.#connectingSince = performance.now()
    this.#connecting ??= this.#connectWithKeys()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#connecting = undefined
      })
    await this.#connecting
  }

  /** Starts a script: see `openChannel`. */
  async openChannel<T>(script: string, wrap: (channel: ClientChannel) => T, late?: (channel: ClientChannel) => void) {
    const client = this.#client ?? refuse('guest_unavailable', 'the guest’s SSH server is not connected')
    this.#isResting = false
    if (openChannelCount(client) >= sshLimits.hostileChannels) this.close()
    return openChannel(client, script, wrap, late)
  }

  /** Work in the guest that no caller waits for. A guest that is unreachable does not need it; other failures are logged. */
  inBackground(work: Promise<unknown>): void {
    const { desktopId, log } = this.#options
    work.catch((err: unknown) => {
      if (!(err instanceof Refusal)) log.error({ err, desktopId }, 'background work in a guest failed')
    })
  }

  /** Waits until little is queued: what many transfers had queued would hold up the commands on the same connection. */
  async sendCapacity(): Promise<void> {
    const isFull = () => (this.#socket?.writableLength ?? 0) > sshLimits.queuedMaxBytes
    while (this.#client && isFull()) await sleep(capacityPollMs)
  }

  /** Closes a connection whose server does not answer although the guest is not busy. */
  probe(): void {
    const client = this.#client
    if (!client) return
    let hasAnswered = false
    const closeIfDead = async () => {
      const isBusy = await this.#options.activity?.busy(sshLimits.probeActivityMs)
      if (!isBusy && !hasAnswered && this.#client === client) this.close()
    }
    const timer = setTimeout(() => this.inBackground(closeIfDead()), sshLimits.probeMs)
    const exchange = async () => {
      await this.#exchange()
      hasAnswered = true
    }
    this.inBackground(exchange().finally(() => clearTimeout(timer)))
  }

  /**
   * The guest is paused: nothing is sent before the next call of `connect`, and its silence is no fault. With more channels than
   * the idle ones, the connection is closed, so that what is in flight ends.
   */
  rest({ idleChannels }: { idleChannels: number }): void {
    if (!this.#client) return
    if (openChannelCount(this.#client) > idleChannels) this.close()
    else this.#isResting = true
  }

  /** Closes the connection. The next call of `connect` opens another. */
  close(): void {
    const client = this.#client
    if (!client) return
    this.#lost(client)
    // Not ssh2's own `destroy`, which leaves a socket open that its server made it end.
    this.#socket?.destroy()
  }

  /** Closes the connection for good, and one that is being opened. */
  end(): void {
    this.#isEnded = true
    this.close()
  }

  #refuseOnceEnded(): void {
    if (this.#isEnded) refuse('guest_unavailable', 'the SSH connection to the guest was closed')
  }

  #failed(error: unknown): never {
    const { desktopId, log } = this.#options
    this.#failedAt = performance.now()
    if (error instanceof Refusal) log.debug({ err: error, desktopId }, 'the guest is unreachable over SSH')
    else log.error({ err: error, desktopId }, 'connecting to a guest over SSH failed')
    return refuse('guest_unavailable', 'the guest is unreachable over SSH')
  }

  /** Connects with the keys of the last exchange, and with new ones where the guest rejects those. */
  async #connectWithKeys(): Promise<Client> {
    const { desktopId, keys, agent, log } = this.#options
    const address = (await this.#options.address()) ?? refuse('guest_unavailable', 'the guest has no SSH server')
    const known = await keys.read(desktopId)
    try {
      if (known) return await this.#connectOnce(address, known)
    } catch (error) {
      if (!(error instanceof KeysRejected)) throw error
      log.info({ desktopId }, 'the guest’s SSH keys have changed; exchanging keys again')
    }
    return this.#connectOnce(address, await keys.exchange(desktopId, agent, 'path' in address ? 'port' : 'network'))
  }

  async #connectOnce(address: SshAddress, keys: GuestKeys): Promise<Client> {
    const restMs = this.#lostAt + sshLimits.portRestMs - performance.now()
    if (this.#lostAt > 0 && restMs > 0) await sleep(restMs)
    this.#refuseOnceEnded()
    try {
      return await this.#start(await openConnection(address, () => !this.#isEnded), keys)
    } catch (error) {
      this.#lostAt = performance.now()
      throw error
    }
  }

  async #start(socket: Socket, keys: GuestKeys): Promise<Client> {
    const client = await logIn(socket, keys)
    if (this.#isEnded) socket.destroy()
    this.#refuseOnceEnded()
    this.#client = client
    this.#socket = socket
    this.#isResting = false
    client.once('close', () => this.#lost(client))
    const { agent, activity = unknownActivity } = this.#options
    const agentAnswers = () =>
      agent.ping().then(
        () => true,
        () => false,
      )
    const nudge = () => this.inBackground(this.#exchange())
    const isResting = () => {
      if (this.#isResting) postponeKeepalive(client)
      return this.#isResting
    }
    watchConnection(socket, { activity, agentAnswers, nudge, isResting }, () => this.close())
    return client
  }

  /** A command without effect, which a server that is alive starts at once. */
  #exchange(): Promise<void> {
    return this.openChannel('exit', discardOutput)
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    this.#lostAt = performance.now()
  }
}
