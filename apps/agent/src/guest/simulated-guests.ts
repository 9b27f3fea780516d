// The guests of the simulated hypervisor: reached as real ones are, but for the connection. The failures that a test asks for come
// before each call.
import { type DesktopId, type ExecResult, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { WakeNews } from '../driver/guest-access.ts'
import type {
  FileDownload,
  FileSystem,
  FileUpload,
  GuestAgent,
  Guests,
  RangeDownload,
  UploadAppend,
} from '../driver/guest-transport.ts'
import type { SimulatedGuest } from '../driver/simulated/guest.ts'
import type { SimulatedDriver } from '../driver/simulated/simulated.ts'
import { bringInAlone } from '../scripts/bring-in.ts'
import { isNewAddressScript } from '../scripts/new-address.ts'
import { quote } from '../scripts/quote.ts'
import { sealScript } from '../scripts/seal.ts'
import { GuestCalls } from '../ssh/calls.ts'
import { ChannelTransport } from '../ssh/transport.ts'

export class SimulatedGuests implements Guests {
  readonly #driver: SimulatedDriver
  readonly #access: { bringIn: typeof bringInAlone; log: Log }
  readonly #calls = new Map<DesktopId, GuestCalls>()

  constructor(driver: SimulatedDriver, log: Log) {
    this.#driver = driver
    this.#access = { bringIn: bringInAlone, log }
  }

  guest(desktopId: DesktopId): ChannelTransport {
    const guest = this.#driver.guest(desktopId, this.#access)
    const calls = this.#calls.get(desktopId) ?? new GuestCalls(guest)
    this.#calls.set(desktopId, calls)
    return new SimulatedTransport(this.#driver, desktopId, guest, calls)
  }

  /** It gets our program with its first call. */
  async meet(): Promise<void> {}

  async tell(desktopId: DesktopId, { files = [], hostName }: WakeNews = {}): Promise<void> {
    const guest = this.#driver.guest(desktopId, this.#access)
    await guest.resumed()
    for (const { path, bytes, mode = 0o644 } of files) {
      const [name, rights] = [quote(path), mode.toString(8)]
      await guest.run(bytes ? `umask 077; cat >${name} && chmod ${rights} ${name}` : `rm -f ${name}`, 0, bytes)
    }
    if (hostName !== undefined) await guest.run(`hostname ${quote(hostName)}`)
  }

  async fileSystems(desktopId: DesktopId): Promise<FileSystem[]> {
    return this.#driver.fileSystems.get(desktopId) ?? []
  }

  nobody(buildId: string): GuestAgent {
    return new TemplateAgent(this.#driver.templates.guest(buildId, this.#access))
  }

  async introduce(): Promise<WakeNews['files']> {
    return []
  }

  async forget(desktopId: DesktopId): Promise<void> {
    this.#calls.delete(desktopId)
  }

  close(): void {}
}

/** It has neither an init, an SSH server nor a processor that could rest, so the scripts that need these are not run. */
class TemplateAgent implements GuestAgent {
  readonly #guest: SimulatedGuest

  constructor(guest: SimulatedGuest) {
    this.#guest = guest
  }

  ping(): Promise<void> {
    return this.#guest.ping()
  }

  setTime(): Promise<void> {
    return this.#guest.setTime()
  }

  async run(script: string, timeoutSecs: number, input?: Buffer) {
    await this.ping()
    if (!input && script !== sealScript) return this.#guest.run(script, timeoutSecs)
    const stdout =
      script === sealScript ? `mini yes ${Buffer.from('127.0.0.1 localhost mini\n').toString('base64')}\n` : ''
    return { exitCode: 0, signal: undefined, stdout: Buffer.from(stdout), stderr: Buffer.alloc(0) }
  }
}

type Given<N extends keyof ChannelTransport> = ChannelTransport[N] extends (...given: infer G) => unknown ? G : never

class SimulatedTransport extends ChannelTransport {
  readonly #driver: SimulatedDriver
  readonly #desktopId: DesktopId
  readonly #guest: SimulatedGuest

  constructor(driver: SimulatedDriver, desktopId: DesktopId, guest: SimulatedGuest, calls: GuestCalls) {
    super({ connection: guest, calls }, guest)
    this.#driver = driver
    this.#desktopId = desktopId
    this.#guest = guest
  }

  /** Connects to nothing: most desktops are never called. */
  override setTime(): Promise<void> {
    return this.#guest.setTime()
  }

  override async exec(...[command, deadline]: Given<'exec'>): Promise<ExecResult> {
    const { faults } = this.#driver
    await this.ping()
    faults.lastExec = command
    await faults.enter('exec')
    if (isNewAddressScript(command.command)) return ended(this.#guest.requestAddress() ? 0 : 1)
    return super.exec(command, deadline)
  }

  override async call(...given: Given<'call'>): Promise<Buffer> {
    await this.#driver.faults.enter('supervise')
    await this.ping()
    return super.call(...given)
  }

  override async createFile(...given: Given<'createFile'>): Promise<FileUpload> {
    await this.ping()
    return this.#upload(await super.createFile(...given))
  }

  override async createArchive(...given: Given<'createArchive'>): Promise<FileUpload> {
    await this.ping()
    return this.#upload(await super.createArchive(...given))
  }

  override async openFile(...given: Given<'openFile'>): Promise<RangeDownload> {
    await this.ping()
    const download = await super.openFile(...given)
    return { ...this.#download(download), head: download.head }
  }

  override async openArchive(...given: Given<'openArchive'>): Promise<FileDownload> {
    await this.ping()
    return this.#download(await super.openArchive(...given))
  }

  override async uploadStep(...given: Given<'uploadStep'>) {
    await this.#stepper('writeFile')()
    return super.uploadStep(...given)
  }

  override async appendUpload(...given: Given<'appendUpload'>): Promise<UploadAppend> {
    await this.ping()
    const append = await super.appendUpload(...given)
    const step = this.#stepper('writeFile')
    return {
      write: (bytes) => step().then(() => append.write(bytes)),
      finish: () => step().then(() => append.finish()),
      close: () => append.close(),
    }
  }

  override async listEntries(...given: Given<'listEntries'>) {
    await this.#stepper('readFile')()
    return super.listEntries(...given)
  }

  override async changeEntry(...given: Given<'changeEntry'>) {
    await this.#stepper('writeFile')()
    return super.changeEntry(...given)
  }

  #upload(upload: FileUpload): FileUpload {
    const step = this.#stepper('writeFile')
    return {
      write: (bytes) => step().then(() => upload.write(bytes)),
      commit: () => step().then(() => upload.commit()),
      abandon: () => upload.abandon(),
    }
  }

  #download(download: FileDownload): FileDownload {
    const step = this.#stepper('readFile')
    const read = async () => {
      await step()
      const bytes = await download.read()
      this.#driver.faults.bytesRead += bytes?.length ?? 0
      return bytes
    }
    return { read, close: () => download.close() }
  }

  /** Each step of a transfer; refused once the guest that started it has ended. */
  #stepper(operation: 'writeFile' | 'readFile'): () => Promise<void> {
    const life = this.#driver.life(this.#desktopId)
    const gone = () => refuse('guest_unavailable', 'the guest ended during the transfer')
    return async () => {
      await this.#driver.faults.enter(operation, life).catch((error: unknown) => {
        throw life.aborted ? gone() : error
      })
      if (life.aborted) gone()
      await this.ping()
    }
  }
}

const ended = (exitCode: number): ExecResult => ({
  ...{ exitCode, signal: null, stdout: '', stderr: '', stdoutTruncated: false, stderrTruncated: false, durationMs: 0 },
})
