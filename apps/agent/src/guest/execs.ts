// Execs in a guest: each operation is a short command of the supervisor, which is brought in if it is missing. An operation that
// may be repeated goes to a supervisor that waits in the guest, if there is one: it starts no program there. Keeps nothing but
// where the supervisor was, so it survives a restart of this process.
import {
  type CommandPayload,
  type CommandResult,
  type DesktopId,
  type ExecCommand,
  type ExecReport,
  Refusal,
  refuse,
} from '@dormouse/contract'
import type { Conversation, GuestTransport } from '../driver/guest-transport.ts'
import { ServedAnswers, servedInputMaxBytes, servedRequest, serveScript } from '../scripts/served.ts'
import {
  answerOf,
  badAnswer,
  execsIn,
  operation,
  parseStatus,
  printedOutput,
  servedOutput,
  startArgs,
  supervisorPlaces,
} from '../scripts/supervisor.ts'

interface Target {
  desktopId: DesktopId
  generation: number
}

type Args = readonly (string | number)[]

interface Options {
  /** What is kept where the program is; by default execs. */
  folderIn?: (place: string) => string
  cwd?: string | null
  env?: Record<string, string>
  stdin?: string
  timeoutSecs?: number
  /** What is started, for the refusal that names it. */
  started?: Pick<ExecCommand, 'command' | 'cwd'>
}

const stepSecs = 30
const lookSecs = 10
const removeWaitMs = 5_000

export class GuestExecs {
  readonly #places = new Map<DesktopId, string>()
  readonly #finding = new Map<DesktopId, Promise<string>>()
  readonly #served = new ServedExecs()

  async start(guest: GuestTransport, request: CommandPayload<'exec.start'>): Promise<ExecReport> {
    const { cwd, env } = request
    const [line] = await this.operate(guest, request, startArgs(request), { cwd, env, started: request })
    return own(parseStatus(line!), request)
  }

  async list(guest: GuestTransport, target: Target): Promise<ExecReport[]> {
    return reportsOf(await this.operate(guest, target, ['list']))
  }

  async running(guest: GuestTransport, target: Target): Promise<ExecReport[]> {
    return reportsOf(await this.operate(guest, target, ['list', 'running'], { timeoutSecs: lookSecs }))
  }

  async get(guest: GuestTransport, request: CommandPayload<'exec.get'>): Promise<ExecReport> {
    const [line] = await this.#ask(guest, request, ['get', request.execId])
    return own(parseStatus(line!), request)
  }

  async read(guest: GuestTransport, request: CommandPayload<'exec.read'>): Promise<CommandResult<'exec.read'>> {
    const { execId, stream, offset, maxBytes, waitMs } = request
    const args = ['read', execId, stream === 'stderr' ? 'err' : 'out', offset, maxBytes, waitMs ?? 0]
    const timeoutSecs = stepSecs + Math.ceil((waitMs ?? 0) / 1_000)
    if (waitMs) this.#serve(guest, request)
    const answer = await this.#served.ask(request, { args, timeoutSecs })
    const { lines, bytes } = answer
      ? servedOutput(answer)
      : printedOutput(await this.operate(guest, request, args, { timeoutSecs }))
    const [status = '', head = ''] = lines
    const [, from, count] = /^data (\d{1,16}) (\d{1,7})$/.exec(head) ?? badAnswer()
    if (bytes.length !== Number(count)) badAnswer()
    return { exec: own(parseStatus(status), request), offset: Number(from), data: bytes.toString('base64') }
  }

  async write(guest: GuestTransport, request: CommandPayload<'exec.write'>): Promise<CommandResult<'exec.write'>> {
    const { execId, offset, data, ends, waitMs } = request
    const args = ['write', execId, offset, ends ? 1 : 0, waitMs]
    const timeoutSecs = stepSecs + Math.ceil(waitMs / 1_000)
    this.#serve(guest, request)
    const [line = ''] = await this.#ask(guest, request, args, { stdin: data, timeoutSecs })
    const [, word, end] = /^(end|gap) (\d{1,16})$/.exec(line) ?? badAnswer()
    return { end: Number(end), gap: word === 'gap' }
  }

  async signal(guest: GuestTransport, request: CommandPayload<'exec.signal'>): Promise<ExecReport> {
    const [line] = await this.operate(guest, request, ['signal', request.execId, request.signal])
    return own(parseStatus(line!), request)
  }

  async resize(guest: GuestTransport, request: CommandPayload<'exec.resize'>): Promise<ExecReport> {
    const { cols, rows } = request.size
    const [line] = await this.#ask(guest, request, ['resize', request.execId, cols, rows])
    return own(parseStatus(line!), request)
  }

  async remove(guest: GuestTransport, request: CommandPayload<'exec.remove'>): Promise<void> {
    try {
      await this.operate(guest, request, ['remove', request.execId, removeWaitMs])
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'exec_unknown') throw error
    }
  }

  /** Others like it are likely to follow. */
  #serve(guest: GuestTransport, target: Target): void {
    this.#served.begin(guest, target, this.#places.get(target.desktopId) ?? supervisorPlaces[0])
  }

  /** An operation that may be repeated. */
  async #ask(guest: GuestTransport, target: Target, args: Args, options: Options = {}): Promise<string[]> {
    const { stdin: input, timeoutSecs = stepSecs } = options
    const answer = await this.#served.ask(target, { args, input, timeoutSecs })
    return answer === undefined ? this.operate(guest, target, args, options) : answerOf(answer.toString('latin1'))
  }

  /** Runs an operation of the supervisor, which is brought in if it is missing. */
  async operate(
    guest: GuestTransport,
    target: Target,
    args: Args | ((place: string) => Args),
    options: Options = {},
  ): Promise<string[]> {
    const known = this.#places.get(target.desktopId) ?? supervisorPlaces[0]
    try {
      return await runIn(guest, target, known, args, options)
    } catch (error) {
      // Even if the command's own folder is missing, or the program is not one that runs here.
      if (!(error instanceof Refusal) || error.code !== 'command_not_run') throw error
      if (await works(guest, target, known)) throw error
      return runIn(guest, target, await this.#find(guest, target), args, options)
    }
  }

  /** Where the program is; it is brought in if it is missing. */
  async #find(guest: GuestTransport, target: Target): Promise<string> {
    const { desktopId } = target
    const joined = this.#finding.get(desktopId)
    if (joined) return joined
    const finding = find(guest, target).finally(() => this.#finding.delete(desktopId))
    this.#finding.set(desktopId, finding)
    const place = await finding
    this.#places.set(desktopId, place)
    return place
  }
}

async function find(guest: GuestTransport, target: Target): Promise<string> {
  const place = await workingPlace(guest, target)
  if (place !== undefined) return place
  await guest.bringIn()
  return (
    (await workingPlace(guest, target)) ??
    refuse('exec_unsupported', 'the guest has no writable folder that runs programs, or another processor than x86-64')
  )
}

async function workingPlace(guest: GuestTransport, target: Target): Promise<string | undefined> {
  for (const place of supervisorPlaces) if (await works(guest, target, place)) return place
  return undefined
}

async function works(guest: GuestTransport, target: Target, place: string): Promise<boolean> {
  try {
    return (await runIn(guest, target, place, ['check']))[0] === 'ready'
  } catch (error) {
    if (error instanceof Refusal && error.code === 'command_not_run') return false
    throw error
  }
}

async function runIn(
  guest: GuestTransport,
  target: Target,
  place: string,
  args: Args | ((place: string) => Args),
  options: Options = {},
): Promise<string[]> {
  const { folderIn = execsIn } = options
  const command = operation(place, folderIn(place), typeof args === 'function' ? args(place) : args)
  const { stdout, stdoutTruncated } = await guest.exec(plain(target, command, options))
  return stdoutTruncated ? badAnswer() : answerOf(stdout, options.started)
}

/** The last line says that the list is whole. */
const reportsOf = (lines: string[]): ExecReport[] =>
  lines.at(-1) === 'all' ? lines.slice(0, -1).map(parseStatus) : badAnswer()

const plain = (
  { desktopId, generation }: Target,
  command: string | string[],
  { cwd = null, env = {}, stdin, timeoutSecs = stepSecs }: Options,
) => ({ desktopId, generation, command, cwd, env, stdin: stdin ?? null, timeoutSecs })

/** A guest reports the exec that it was asked about. */
const own = (report: ExecReport, { execId }: { execId: string }): ExecReport =>
  report.execId === execId ? report : badAnswer()

interface ServedRequest {
  args: Args
  input?: string | undefined
  timeoutSecs: number
}

/** Without a request for so long it ends. */
const idleMs = 30_000
/** The pause before a server that could not be started is tried again. */
const retryMs = 10_000
/** Answered by any supervisor that serves: there is no such exec. */
const probe = { args: ['get', '-'], timeoutSecs: 20 }

export class ServedExecs {
  readonly #servers = new Map<DesktopId, Server>()

  /** The answer of the supervisor that waits; undefined if none does, or it is lost: the request may have been served. */
  async ask({ desktopId, generation }: Target, request: ServedRequest): Promise<Buffer | undefined> {
    const server = this.#servers.get(desktopId)
    if (server?.generation !== generation || !server.isReady) return undefined
    if ((request.input?.length ?? 0) > servedInputMaxBytes) return undefined
    return server.ask(request)
  }

  /** Starts one for the requests to come, unless there is one. */
  begin(guest: GuestTransport, { desktopId, generation }: Target, place: string): void {
    const there = this.#servers.get(desktopId)
    if (there?.generation === generation) return
    there?.close()
    const server = new Server(generation, () => {
      if (this.#servers.get(desktopId) === server) this.#servers.delete(desktopId)
    })
    this.#servers.set(desktopId, server)
    void server.start(guest, place)
  }
}

/** A supervisor that waits for requests in a guest. */
class Server {
  readonly generation: number
  readonly #answers = new ServedAnswers()
  readonly #waiting = new Map<number, (answer: Buffer | undefined) => void>()
  readonly #forget: () => void
  #conversation: Conversation | undefined
  #idle: NodeJS.Timeout | undefined
  #lastTag = 0
  #isReady = false
  #isEnded = false

  constructor(generation: number, forget: () => void) {
    this.generation = generation
    this.#forget = forget
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isEnded
  }

  /** Rejects only for a fault of this program: whatever a guest does leaves the requests to commands. */
  async start(guest: GuestTransport, place: string): Promise<void> {
    try {
      const listener = { received: (bytes: Buffer) => this.#receive(bytes), ended: () => this.#end() }
      this.#conversation = await guest.converse(serveScript(place), listener)
      if (this.#isEnded) this.#conversation?.close()
      else if (this.#conversation && (await this.ask(probe)) !== undefined) this.#isReady = true
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
    if (this.isReady) this.#rest()
    else this.#giveUp()
  }

  /** Undefined if it is lost before it answers; `guest_deadline` if it does not answer in time. */
  async ask({ args, input, timeoutSecs }: ServedRequest): Promise<Buffer | undefined> {
    const tag = ++this.#lastTag
    const { promise, resolve } = Promise.withResolvers<Buffer | undefined>()
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      this.close()
    }, timeoutSecs * 1_000)
    clearTimeout(this.#idle)
    this.#waiting.set(tag, resolve)
    this.#answers.expect(tag)
    this.#conversation?.send(servedRequest(tag, args, input))
    const answer = await promise
    clearTimeout(timer)
    if (isLate) refuse('guest_deadline', `the guest did not answer within ${timeoutSecs} s`)
    return answer
  }

  close(): void {
    this.#conversation?.close()
    this.#end()
  }

  #receive(bytes: Buffer): void {
    try {
      for (const { tag, answer } of this.#answers.add(bytes)) {
        this.#waiting.get(tag)?.(answer)
        this.#waiting.delete(tag)
      }
      this.#rest()
    } catch {
      // What is no answer is asked again as a command, which says what is wrong.
      this.close()
    }
  }

  #rest(): void {
    clearTimeout(this.#idle)
    if (this.#waiting.size === 0 && !this.#isEnded) this.#idle = setTimeout(() => this.close(), idleMs).unref()
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    clearTimeout(this.#idle)
    for (const answer of this.#waiting.values()) answer(undefined)
    this.#waiting.clear()
    if (this.#isReady) this.#forget()
  }

  /** It stays known for a while, so that not each request tries again. */
  #giveUp(): void {
    this.close()
    setTimeout(this.#forget, retryMs).unref()
  }
}
