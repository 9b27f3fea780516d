// A simulated guest. Its boot id, a counter of its time awake, its clock and the files under /run and /tmp are in its
// memory; all other files are on its disk. So the loss of either is visible.
import { hash } from 'node:crypto'
import {
  type DesktopId,
  type EntryChange,
  type ExecCommand,
  type ExecResult,
  execOutputMaxBytes,
  type GuestEntry,
  type ListEntriesResult,
  notRunReason,
  Refusal,
  refuse,
  type UploadCommand,
  type UploadResult,
} from '@dormouse/contract'
import type { WakeNews } from '../guest-access.ts'
import {
  type ChooseRange,
  CommandLost,
  deadlineOf,
  type EntriesRequest,
  type FileDownload,
  type FileUpload,
  type GuestAgent,
  type GuestCall,
  type GuestTransport,
  type ProgramEnd,
  type RangeDownload,
  type UploadAppend,
} from '../guest-transport.ts'
import { packSimulated, unpackSimulated } from './archives.ts'
import { simulatedAddress, simulatedAddressFile } from './domains.ts'
import { changeSimulated, type FileStore, listSimulated } from './entries.ts'
import type { SimulatedFaults } from './faults.ts'
import { asBytes, asText, isFolder, piecesOf, refuseUnread, refuseUnwritable } from './files.ts'
import { asksForAddress, bringsIn, sealing } from './known-scripts.ts'
import { runArray, runShell, type ShellWorld } from './shell.ts'
import type { JsonFolder, SimulatedDisk, SimulatedDomain } from './store.ts'
import { runSupervisor } from './supervisor.ts'
import { simulatedAppend, simulatedStep } from './uploads.ts'

export interface GuestMachine {
  domains: JsonFolder<SimulatedDomain>
  disks: JsonFolder<SimulatedDisk>
  faults: SimulatedFaults
  /** Aborts when the domain's process ends. */
  alive(desktopId: DesktopId): AbortSignal
}

const silenceMs = 50
/** How often the counter in memory rises while the guest runs. */
const counterStepMs = 50
const sectorsPerGib = 1024 ** 3 / 512

export class SimulatedGuest implements GuestTransport, GuestAgent {
  readonly #machine: GuestMachine
  readonly #desktopId: DesktopId

  constructor(machine: GuestMachine, desktopId: DesktopId) {
    this.#machine = machine
    this.#desktopId = desktopId
  }

  async ping(): Promise<void> {
    await this.#machine.faults.enter('ping')
    this.#running()
    if (!this.#machine.faults.silent(this.#desktopId)) return
    await new Promise((resolve) => setTimeout(resolve, silenceMs))
    refuse('guest_unavailable', 'the guest does not answer')
  }

  async setTime(): Promise<void> {
    await this.ping()
    await this.#machine.faults.enter('setTime')
    this.#setClock()
  }

  /** That includes its clock; it has random numbers of its own always. */
  async tell({ files = [], hostName }: WakeNews = {}): Promise<void> {
    await this.ping()
    await this.#machine.faults.enter('tell')
    for (const { path, bytes } of files) this.#write(path, bytes && asText(bytes))
    if (hostName !== undefined) this.#write('/run/hostname', hostName)
    this.#setClock()
  }

  /** As its agent does: `input` is the program that is brought in, which it does not run. */
  async run(script: string, timeoutSecs: number): Promise<ProgramEnd> {
    const command = {
      desktopId: this.#desktopId,
      generation: 0,
      command: script,
      cwd: null,
      env: {},
      stdin: null,
      timeoutSecs,
    }
    const { exitCode, stdout, stderr } = await this.exec(command)
    const [out, err] = [Buffer.from(stdout), Buffer.from(stderr)]
    return { exitCode: exitCode ?? undefined, signal: undefined, stdout: out, stderr: err }
  }

  #setClock(): void {
    const domain = this.#running()
    this.#machine.domains.write(this.#desktopId, { ...domain, memory: { ...domain.memory, clockOffsetMs: 0 } })
  }

  async exec(command: ExecCommand, deadline = deadlineOf(command)): Promise<ExecResult> {
    await this.ping()
    this.#machine.faults.lastExec = command
    await this.#machine.faults.enter('exec')
    this.#refuseNoFolder(command)
    if (bringsIn(command.command)) return { ...asKept({ exitCode: 0, stdout: '', stderr: '' }), durationMs: 0 }
    const sealed = sealing(command.command)
    if (sealed) return { ...asKept({ exitCode: 0, stdout: sealed, stderr: '' }), durationMs: 0 }
    if (asksForAddress(command.command))
      return { ...asKept({ exitCode: this.#requestAddress(), stdout: '', stderr: '' }), durationMs: 0 }
    const started = performance.now()
    const late = AbortSignal.timeout(Math.max(0, Math.round(deadline - started)))
    const ended = AbortSignal.any([late, this.#machine.alive(this.#desktopId)])
    const world = this.#world(command, ended, late)
    const { command: words, stdin } = command
    const out = { stdout: '', stderr: '' }
    const running = Array.isArray(words)
      ? runArray(world, words, stdin ?? '', out)
      : runShell(world, words, stdin ?? '', out)
    const durationMs = () => Math.round(performance.now() - started)
    try {
      return { ...asKept(await running), durationMs: durationMs() }
    } catch (error) {
      if (!late.aborted || !command.showsTimeout) throw error
      return { ...asKept({ exitCode: null, ...out }), durationMs: durationMs(), timedOut: true }
    }
  }

  /** Where it has a port on the network. Returns an exit code. */
  #requestAddress(): number {
    if (!this.#running().nic) return 1
    this.#write(simulatedAddressFile, `${simulatedAddress.ip}\n`)
    return 0
  }

  async call({ words: given, input = '', timeoutSecs }: GuestCall): Promise<Buffer> {
    this.#running()
    await this.#machine.faults.enter('supervise')
    if (this.#machine.faults.silent(this.#desktopId)) refuse('guest_unavailable', 'the guest does not answer')
    const words = given.map(String)
    const alive = this.#machine.alive(this.#desktopId)
    const late = AbortSignal.timeout(timeoutSecs * 1_000)
    const ended = AbortSignal.any([late, alive])
    const { bootId } = this.#running().memory
    const command: ExecCommand = {
      ...{ desktopId: this.#desktopId, generation: 0, command: words, stdin: null, timeoutSecs },
      ...startedBy(words),
    }
    const short = this.#world(command, ended, late)
    const world = {
      ...short,
      ...(words[1] === 'start' && { sleep: (ms: number) => this.#sleepOn(ms, bootId) }),
      bootId,
      paths: (folder: string) => this.#files().filter((path) => path.startsWith(folder)),
      // It ends with the guest, whatever it did.
      inBackground: (work: Promise<void>) => void work.catch(() => undefined),
    }
    this.#refuseNoFolder(command)
    return runSupervisor(world, words, Buffer.from(input))
  }

  #refuseNoFolder(command: ExecCommand): void {
    const folder = command.cwd?.replace(/(?<=.)\/+$/, '')
    if (folder && !isFolder(this.#files(), folder)) refuse('command_not_run', notRunReason('folder', command))
  }

  /** Goes on over a sleep of the desktop; rejects once that guest is gone. */
  async #sleepOn(ms: number, bootId: string): Promise<void> {
    for (let leftMs = ms; leftMs > 0; ) {
      const domain = this.#machine.domains.read(this.#desktopId)
      const isGone = domain ? domain.memory.bootId !== bootId : !this.#machine.disks.read(this.#desktopId)
      if (isGone) refuse('guest_unavailable', 'the guest is gone')
      const stepMs = Math.min(leftMs, silenceMs)
      await new Promise((resolve) => setTimeout(resolve, stepMs).unref())
      if (domain?.state === 'running') leftMs -= stepMs
    }
  }

  /** Ignores its mode. */
  async createFile(path: string): Promise<FileUpload> {
    await this.ping()
    refuseUnwritable(this.#files(), path)
    return this.#upload(async (whole) => this.#write(path, asText(whole)))
  }

  async createArchive(path: string): Promise<FileUpload> {
    await this.ping()
    if (this.#read(path) !== undefined) refuse('not_directory', 'the path is not a directory in the guest')
    if (!isFolder(this.#files(), path)) refuseUnwritable(this.#files(), path)
    return this.#upload((whole) => unpackSimulated(this.#store(), path, whole))
  }

  async openArchive(path: string): Promise<FileDownload> {
    await this.ping()
    return this.#download(await packSimulated(this.#store(), path))
  }

  /** Holds the bytes in memory until they are whole. */
  #upload(place: (whole: Buffer) => Promise<void>): FileUpload {
    const life = this.#machine.alive(this.#desktopId)
    const parts: Buffer[] = []
    return {
      write: async (bytes) => {
        await this.#step('writeFile', life)
        parts.push(bytes)
      },
      commit: async () => {
        await this.#step('writeFile', life)
        const whole = Buffer.concat(parts)
        await place(whole)
        return whole.length
      },
      abandon: async () => void parts.splice(0),
    }
  }

  async openFile(path: string, choose: ChooseRange): Promise<RangeDownload> {
    await this.ping()
    const bytes = asBytes(this.#read(path) ?? refuseUnread(this.#files(), path))
    const file = { size: bytes.length, version: hash('sha256', bytes) }
    // As in a real guest, where such a file has its size only once it was read.
    if (path.startsWith('/proc/'))
      return { head: { size: 0, version: file.version, sent: null, whole: true }, ...this.#download(bytes) }
    const sent = choose(file)
    const part = sent ? bytes.subarray(sent.first, sent.first + sent.length) : Buffer.alloc(0)
    return { head: { ...file, sent }, ...this.#download(part) }
  }

  #download(bytes: Buffer): FileDownload {
    const pieces = piecesOf(bytes)
    const life = this.#machine.alive(this.#desktopId)
    return {
      read: async () => {
        await this.#step('readFile', life)
        return pieces.next().value
      },
      close: async () => undefined,
    }
  }

  async uploadStep(command: UploadCommand): Promise<UploadResult> {
    await this.#step('writeFile', this.#machine.alive(this.#desktopId))
    return simulatedStep(this.#store(), command)
  }

  async appendUpload(upload: Pick<UploadCommand, 'path' | 'uploadId'>, offset: number): Promise<UploadAppend> {
    await this.ping()
    const life = this.#machine.alive(this.#desktopId)
    return simulatedAppend(this.#store(), upload, offset, () => this.#step('writeFile', life))
  }

  async listEntries(request: EntriesRequest): Promise<ListEntriesResult> {
    await this.#step('readFile', this.#machine.alive(this.#desktopId))
    return listSimulated(this.#store(), request)
  }

  async changeEntry(change: EntryChange): Promise<GuestEntry | null> {
    await this.#step('writeFile', this.#machine.alive(this.#desktopId))
    return changeSimulated(this.#store(), change)
  }

  #store(): FileStore {
    return {
      paths: () => this.#files(),
      read: (path) => this.#read(path),
      write: (path, text) => this.#write(path, text),
    }
  }

  /** One step of a transfer; refused if the guest that started it has ended. */
  async #step(operation: 'writeFile' | 'readFile', life: AbortSignal): Promise<void> {
    const gone = () => refuse('guest_unavailable', 'the guest ended during the transfer')
    await this.#machine.faults.enter(operation, life).catch((error) => {
      throw life.aborted ? gone() : error
    })
    if (life.aborted) gone()
    await this.ping()
  }

  #files(): string[] {
    const { memory } = this.#running()
    return [...Object.keys(memory.files), ...Object.keys(this.#machine.disks.read(this.#desktopId)?.files ?? {})]
  }

  #running(): SimulatedDomain {
    const domain = this.#machine.domains.read(this.#desktopId)
    return domain?.state === 'running' && !domain.idles ? domain : refuse('guest_unavailable', 'the guest does not run')
  }

  #world(command: ExecCommand, ended: AbortSignal, deadline: AbortSignal): ShellWorld {
    return {
      env: { HOME: '/root', ...command.env },
      read: (path) => this.#read(path),
      write: (path, text) => this.#write(path, text),
      remove: (path) => this.#write(path, undefined),
      nowMs: () => Date.now() + this.#running().memory.clockOffsetMs,
      sleep: (ms) => sleepIn(ms, ended, deadline, command.timeoutSecs),
    }
  }

  #read(path: string): string | undefined {
    const { memory, runningSince, nic } = this.#running()
    if (path === '/proc/sys/kernel/random/boot_id') return `${memory.bootId}\n`
    if (path === '/sys/class/net/eth0/address') return nic ? `${simulatedAddress.mac}\n` : undefined
    if (path === '/sys/block/vda/size')
      return `${(this.#machine.disks.read(this.#desktopId)?.spec.diskGiB ?? 0) * sectorsPerGib}\n`
    const awakeMs = memory.awakeMs + Date.now() - (runningSince ?? Date.now())
    if (path === '/run/counter') return `${Math.floor(awakeMs / counterStepMs)}\n`
    const files = inMemory(path) ? memory.files : this.#machine.disks.read(this.#desktopId)?.files
    return files && Object.hasOwn(files, path) ? files[path] : undefined
  }

  #write(path: string, text: string | undefined): void {
    if (path === '/dev/null') return
    const domain = this.#running()
    if (inMemory(path)) {
      const files = changed(domain.memory.files, path, text)
      this.#machine.domains.write(this.#desktopId, { ...domain, memory: { ...domain.memory, files } })
      return
    }
    const disk = this.#machine.disks.read(this.#desktopId)
    if (disk) this.#machine.disks.write(this.#desktopId, { ...disk, files: changed(disk.files, path, text) })
  }
}

const inMemory = (path: string) => path.startsWith('/run/') || path.startsWith('/tmp/')

function changed(files: Record<string, string>, path: string, text: string | undefined): Record<string, string> {
  const { [path]: _old, ...others } = files
  return text === undefined ? others : { ...others, [path]: text }
}

async function sleepIn(ms: number, ended: AbortSignal, deadline: AbortSignal, timeoutSecs: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const late = () => new Refusal('guest_deadline', `the command ran longer than ${timeoutSecs} s and was ended`)
  const gone = () => new CommandLost('the guest ended while the command ran')
  const stop = () => reject(deadline.aborted ? late() : gone())
  if (ended.aborted) stop()
  ended.addEventListener('abort', stop, { once: true })
  const timer = setTimeout(resolve, ms)
  await promise.finally(() => {
    clearTimeout(timer)
    ended.removeEventListener('abort', stop)
  })
}

function asKept({ exitCode, stdout, stderr }: { exitCode: number | null; stdout: string; stderr: string }) {
  return {
    exitCode,
    signal: null,
    stdout: stdout.slice(0, execOutputMaxBytes),
    stderr: stderr.slice(0, execOutputMaxBytes),
    stdoutTruncated: stdout.length > execOutputMaxBytes,
    stderrTruncated: stderr.length > execOutputMaxBytes,
  }
}

/** Folder and variables of a command that is started. */
function startedBy(words: string[]): Pick<ExecCommand, 'cwd' | 'env'> {
  if (words[1] !== 'start') return { cwd: null, env: {} }
  const variables = words.slice(10, 10 + Number(words[9])).map((each) => each.split(/=(.*)/s, 2) as [string, string])
  return { cwd: words[7] || null, env: Object.fromEntries(variables) }
}
