// The SSH connection to a desktop's guest: opened when it is needed, opened again when it was lost, shared by all commands
// and files. Knows nothing of what it is used for.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Client } from 'ssh2'
import { type GuestActivity, unknownActivity } from '../driver/guest-access.ts'
import type { GuestChannel, GuestConnection } from '../driver/guest-connection.ts'
import type { GuestAgent } from '../driver/guest-transport.ts'
import { bringIn } from '../scripts/bring-in.ts'
import { sshLimits } from '../scripts/limits.ts'
import { discardOutput, openChannelCount, postponeKeepalive } from './channels.ts'
import type { GuestKeys, SshKeys } from './keys.ts'
import { KeysRejected, logIn } from './login.ts'
import { openChannel } from './open-channel.ts'
import { watchConnection } from './watchdog.ts'

export interface SshConnectionOptions {
  desktopId: DesktopId
  /** Opens a socket on which SSH starts. `onSilence` is called while nothing in the guest serves the port. */
  open: (isWanted: () => boolean, onSilence: () => Promise<unknown>) => Promise<Socket>
  /** Brings in the program that serves the port, exchanges keys, and says whether the guest is alive. */
  agent: GuestAgent
  keys: SshKeys
  activity?: GuestActivity
  log: Log
}

const capacityPollMs = 5

export class SshConnection implements GuestConnection {
  readonly #options: SshConnectionOptions
  #connecting: Promise<Client> | undefined
  #client: Client | undefined
  #socket: Socket | undefined
  #lostAt = 0
  #keys: GuestKeys | undefined
  /** Whether our program is known to run in the guest. */
  #hasMet = false
  #meeting: Promise<GuestKeys> | undefined
  #isEnded = false
  #isResting = false

  constructor(options: SshConnectionOptions) {
    this.#options = options
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
    this.#connecting ??= this.#connectWithKeys()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#connecting = undefined
      })
    await this.#connecting
  }

  /** Brings our program and key into the guest, which has booted. `image_unsuited` if it cannot have them. */
  async meet(): Promise<GuestKeys> {
    const { desktopId, keys, agent } = this.#options
    this.#meeting ??= keys
      .exchange(desktopId, (publicKey) => bringIn(agent, publicKey))
      .finally(() => {
        this.#meeting = undefined
      })
    this.#keys = await this.#meeting
    this.#hasMet = true
    return this.#keys
  }

  /** Starts a script: see `openChannel`. */
  async openChannel<T>(script: string, wrap: (channel: GuestChannel) => T, late?: (channel: GuestChannel) => void) {
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

  /** The guest was restarted, was saved, or has ended. */
  interrupt(): void {
    this.#hasMet = false
    this.close()
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
    if (error instanceof Refusal) log.debug({ err: error, desktopId }, 'the guest is unreachable over SSH')
    else log.error({ err: error, desktopId }, 'connecting to a guest over SSH failed')
    if (error instanceof Refusal && error.code !== 'guest_unavailable' && error.code !== 'guest_deadline') throw error
    return refuse('guest_unavailable', 'the guest is unreachable over SSH')
  }

  /** Connects with the keys of the last exchange, and with new ones if the guest rejects those. */
  async #connectWithKeys(): Promise<Client> {
    const { desktopId, keys, log } = this.#options
    this.#keys ??= (await keys.read(desktopId)) ?? (await this.meet())
    try {
      return await this.#connectOnce()
    } catch (error) {
      if (!(error instanceof KeysRejected)) throw error
      log.info({ desktopId }, 'the guest’s SSH keys have changed; exchanging keys again')
    }
    await this.meet()
    return this.#connectOnce()
  }

  async #connectOnce(): Promise<Client> {
    const restMs = this.#lostAt + sshLimits.portRestMs - performance.now()
    if (this.#lostAt > 0 && restMs > 0) await sleep(restMs)
    this.#refuseOnceEnded()
    try {
      const socket = await this.#options.open(
        () => !this.#isEnded,
        () => this.#onSilence(),
      )
      return await this.#start(socket, this.#keys!)
    } catch (error) {
      this.#lostAt = performance.now()
      throw error
    }
  }

  /** Our program may not be in the guest, which has booted. If it is known to be, the port is opened again first. */
  async #onSilence(): Promise<void> {
    if (this.#hasMet) this.#hasMet = false
    else await this.meet().catch(unlessUnsuited)
  }

  async #start(socket: Socket, keys: GuestKeys): Promise<Client> {
    const client = await logIn(socket, keys)
    if (this.#isEnded) socket.destroy()
    this.#refuseOnceEnded()
    this.#client = client
    this.#hasMet = true
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

/** A guest that boots may not be ready for it; one that cannot have the program never will be. */
function unlessUnsuited(error: unknown): void {
  if (!(error instanceof Refusal) || error.code === 'image_unsuited') throw error
}
