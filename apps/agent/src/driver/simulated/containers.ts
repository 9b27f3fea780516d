// The namespaces in which the guests of simulated desktops run. A guest has some from its first call on. They outlive the agent for a
// while, and end with the guest or with the folder of the simulated host.
import { spawn, spawnSync } from 'node:child_process'
import {
  chownSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { type DesktopId, refuse } from '@dormouse/contract'
import { z } from 'zod'
import { ProcessChannel } from './channel.ts'
import {
  enterArgs,
  environment,
  keeper,
  onDisk,
  packDisk,
  packMemory,
  signalAll,
  unpackDisk,
  unpackMemory,
} from './namespaces.ts'
import { JsonFolder } from './store.ts'

const container = z.object({
  /** The process that keeps it, which leads a group, and when that started. */
  keeper: z.int(),
  since: z.string(),
  /** Its first process. */
  init: z.int(),
  /** The saved memory that it still has: it has not run since. */
  savedAs: z.string().optional(),
})
type Container = z.infer<typeof container>

/** Root of a guest is nobody on the machine, even if the agent is root; unless the agent is in a container that has root alone. */
const guestUid = 60_999
const user = process.getuid?.() === 0 && isMapped(guestUid) ? { uid: guestUid, gid: guestUid } : {}
const messageMaxLength = 300

export class GuestContainers {
  readonly #folder: string
  readonly #containers: JsonFolder<Container>
  readonly #making = new Map<DesktopId, Promise<void>>()
  /** The keepers of those that do not run yet. */
  readonly #starting = new Map<DesktopId, number>()
  readonly #held = new Map<DesktopId, number>()
  readonly #channels = new Map<DesktopId, Set<ProcessChannel>>()

  constructor(folder: string) {
    this.#folder = folder
    this.#containers = new JsonFolder(join(folder, 'containers'), container)
  }

  /** Keeps those that an earlier agent has left. Returns those that have ended since. */
  open(): DesktopId[] {
    const all = this.#containers.list().filter((id) => this.#containers.read(id))
    for (const id of all.filter((id) => this.#read(id))) this.#hold(id)
    const gone = all.filter((id) => !this.#read(id))
    for (const id of gone) this.end(id)
    return gone
  }

  /** They run on for a while; what is in flight is lost. */
  close(): void {
    for (const id of this.#channels.keys()) this.cut(id)
    for (const id of this.#starting.keys()) this.#stopStarting(id)
    for (const held of this.#held.values()) closeSync(held)
    this.#held.clear()
  }

  has(id: DesktopId): boolean {
    return !this.#making.has(id) && this.#read(id) !== undefined && !existsSync(this.#memory(id))
  }

  /** Makes one unless there is one, with what it had in memory. `prepare` is what a new one needs. */
  make(id: DesktopId, bootId: string, prepare: () => Promise<unknown>): Promise<void> {
    const making = this.#making.get(id)
    if (making) return making
    if (this.has(id)) return Promise.resolve()
    const made = this.#make(id, bootId, prepare).finally(() => this.#making.delete(id))
    this.#making.set(id, made)
    return made
  }

  async #make(id: DesktopId, bootId: string, prepare: () => Promise<unknown>): Promise<void> {
    await this.#start(id, bootId)
    this.#hold(id)
    const memory = this.#memory(id)
    // As long as the file is there, it starts again.
    if (existsSync(memory)) await this.#succeed(id, unpackMemory, readFileSync(memory))
    rmSync(memory, { force: true })
    await prepare()
  }

  async #start(id: DesktopId, bootId: string): Promise<void> {
    const left = this.#read(id)
    if (left) killGroup(left.keeper)
    const cwd = this.#own(this.#disk(id))
    const place = openSync(this.#own(join(this.#folder, 'containers', id)), constants.O_RDONLY)
    const process = spawn('/bin/sh', ['-c', keeper, 'sh', bootId], {
      ...user,
      ...{ cwd, env: environment, detached: true, stdio: ['ignore', 'pipe', 'pipe', place] },
    })
    closeSync(place)
    process.once('error', () => undefined)
    process.unref()
    const pid = process.pid ?? refuseForbidden('')
    this.#starting.set(id, pid)
    const [, init] = /^init (\d+)\n/.exec(await firstPiece(process.stdout!)) ?? []
    if (this.#starting.get(id) !== pid) refuse('guest_unavailable', 'the guest ended before it was called')
    this.#starting.delete(id)
    const since = startOf(pid)
    if (!init || !since) return refuseForbidden(await text(process.stderr!))
    process.stderr!.destroy()
    this.#containers.write(id, { keeper: pid, since, init: Number(init) })
  }

  #stopStarting(id: DesktopId): void {
    const pid = this.#starting.get(id)
    this.#starting.delete(id)
    if (pid) killGroup(pid)
  }

  /** Starts a script. */
  enter(id: DesktopId, script: string): ProcessChannel {
    const { init } = this.#read(id) ?? refuse('guest_unavailable', 'the guest does not run')
    const process = spawn('nsenter', enterArgs(init, script), { ...user, env: environment, detached: true })
    const channel = new ProcessChannel(process)
    const channels = this.#channels.get(id) ?? new Set()
    this.#channels.set(id, channels.add(channel))
    channel.once('close', () => channels.delete(channel))
    return channel
  }

  /** Runs a script to its end. */
  async run(id: DesktopId, script: string, input?: Buffer): Promise<{ exitCode: number; stdout: Buffer }> {
    const channel = this.enter(id, script)
    channel.stderr.resume()
    const exited = new Promise<number | undefined>((resolve) => {
      channel.once('exit', (code: number | null) => resolve(code ?? undefined))
      channel.once('close', () => resolve(undefined))
    })
    channel.end(input)
    const [exitCode, stdout] = await Promise.all([exited, buffer(channel)])
    if (exitCode === undefined) refuse('guest_unavailable', 'the guest ended while a command ran')
    return { exitCode, stdout }
  }

  async #succeed(id: DesktopId, script: string, input?: Buffer): Promise<Buffer> {
    const { exitCode, stdout } = await this.run(id, script, input)
    return exitCode === 0 ? stdout : refuse('hypervisor_failed', 'the memory of the simulated guest cannot be used')
  }

  /** What is in flight is lost, and goes on in the guest. */
  cut(id: DesktopId): void {
    for (const channel of this.#channels.get(id) ?? []) channel.close()
  }

  /** Its processes wait from now on, or go on. */
  freeze(id: DesktopId): void {
    this.#signal(id, 'STOP')
  }

  thaw(id: DesktopId): void {
    const found = this.#read(id)
    if (!found) return
    this.#containers.write(id, { ...found, savedAs: undefined })
    this.#signal(id, 'CONT')
  }

  #signal(id: DesktopId, name: 'STOP' | 'CONT'): void {
    const found = this.#read(id)
    if (found) spawnSync('nsenter', enterArgs(found.init, signalAll(name)), { ...user, env: environment })
  }

  /** What it has in memory; undefined if it was never called. */
  async packMemory(id: DesktopId): Promise<Buffer | undefined> {
    if (this.has(id)) return this.#succeed(id, packMemory)
    const memory = this.#memory(id)
    return existsSync(memory) ? readFileSync(memory) : undefined
  }

  /** It belongs to that saved memory until it runs again. */
  noteSave(id: DesktopId, savedAs: string): void {
    const found = this.#read(id)
    if (found) this.#containers.write(id, { ...found, savedAs })
  }

  /** It has that memory, and the same processes if it still belongs to it. */
  restore(id: DesktopId, memory: Buffer | undefined, savedAs?: string): void {
    if (savedAs && this.#read(id)?.savedAs === savedAs) return
    this.end(id)
    if (memory?.length) writeFileSync(this.#memory(id), memory, { mode: 0o600 })
  }

  /** The domain has ended. What belongs to a saved memory stays. */
  leave(id: DesktopId): void {
    if (this.#read(id)?.savedAs) this.cut(id)
    else this.end(id)
  }

  /** Ends all its processes, and forgets what it had in memory. */
  end(id: DesktopId): void {
    this.cut(id)
    this.#stopStarting(id)
    const found = this.#read(id)
    if (found) killGroup(found.keeper)
    const held = this.#held.get(id)
    if (held !== undefined) closeSync(held)
    this.#held.delete(id)
    this.#containers.remove(id)
    rmSync(this.#memory(id), { force: true })
    rmSync(join(this.#folder, 'containers', id), { recursive: true, force: true })
  }

  /** The files on its disk; undefined if it was never called. */
  async packDisk(id: DesktopId): Promise<Buffer | undefined> {
    return existsSync(this.#disk(id)) ? this.changeDisk(id, packDisk) : undefined
  }

  async unpackDisk(id: DesktopId, archive: Buffer): Promise<void> {
    this.removeDisk(id)
    if (archive.length > 0) await this.changeDisk(id, unpackDisk, archive)
  }

  /** Runs a command in the folder of its disk, as the owner of all its files. Returns what it printed. */
  async changeDisk(id: DesktopId, command: string, input?: Buffer): Promise<Buffer> {
    const cwd = this.#own(this.#disk(id))
    const process = spawn('unshare', onDisk(command), { ...user, env: environment, cwd })
    process.once('error', () => undefined)
    process.stdin.on('error', () => undefined).end(input)
    const ended = new Promise<number | null>((resolve) => process.once('close', resolve))
    const [printed, why, code] = await Promise.all([buffer(process.stdout), text(process.stderr), ended])
    if (code !== 0) refuse('hypervisor_failed', `the simulated disk cannot be used: ${why.slice(0, messageMaxLength)}`)
    return printed
  }

  removeDisk(id: DesktopId): void {
    const disk = this.#disk(id)
    if (!existsSync(disk)) return
    spawnSync('chmod', ['-R', 'u+rwX', disk])
    rmSync(disk, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }

  #disk(id: DesktopId): string {
    return join(this.#folder, 'disks', id)
  }

  /** What a guest whose processes are gone has in memory. */
  #memory(id: DesktopId): string {
    return join(this.#folder, 'containers', `${id}.memory`)
  }

  #own(folder: string): string {
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
    return folder
  }

  /** Undefined if it has ended. */
  #read(id: DesktopId): Container | undefined {
    const found = this.#containers.read(id)
    return found && startOf(found.keeper) === found.since && startOf(found.init) !== undefined ? found : undefined
  }

  #hold(id: DesktopId): void {
    const held = join(this.#folder, 'containers', id, 'held')
    if (!this.#held.has(id)) this.#held.set(id, openSync(held, constants.O_RDWR | constants.O_NONBLOCK))
  }
}

function isMapped(uid: number): boolean {
  const ranges = readFileSync('/proc/self/uid_map', 'utf8').trim().split('\n')
  return ranges.some((range) => {
    const [first, , count] = range.trim().split(/\s+/).map(Number) as [number, number, number]
    return uid >= first && uid < first + count
  })
}

/** What is printed at once; empty if that is nothing. The rest is dropped. */
async function firstPiece(stream: Readable): Promise<string> {
  for await (const piece of stream) return String(piece)
  return ''
}

/** When a process started, as the kernel counts; undefined if it has ended. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [state = '', ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return 'ZX'.includes(state) ? undefined : fields[18]
  } catch {
    return undefined
  }
}

function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function refuseForbidden(why: string): never {
  const reason = why.trim().split('\n')[0]?.slice(0, messageMaxLength) || 'sh cannot be started'
  return refuse(
    'exec_unsupported',
    `a simulated guest needs user namespaces, which this machine refuses (${reason}); allow them, or use a host with libvirt`,
  )
}
