// Execs in a guest, over either transport: each operation is a short command of the supervisor, which is installed if it
// is missing. What may be repeated is asked of one that waits in the guest, if any. Keeps nothing but where the supervisor
// was, so it survives a restart of this process.
import {
  type CommandPayload,
  type CommandResult,
  type DesktopId,
  type ExecCommand,
  type ExecReport,
  Refusal,
} from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'
import {
  answerOf,
  badAnswer,
  execsIn,
  hasExecsScript,
  makePlaceScript,
  operation,
  parseStatus,
  programIn,
  startArgs,
  supervisorPlaces,
} from '../scripts/supervisor.ts'
import { supervisorProgram } from '../scripts/supervisor-program.ts'
import { ServedExecs } from './served-execs.ts'

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
const installSecs = 60
const lookSecs = 10
const removeWaitMs = 5_000
const listRunning = ['list', 'running'] as const

export class GuestExecs {
  readonly #places = new Map<DesktopId, string>()
  readonly #installing = new Map<DesktopId, Promise<string>>()
  readonly #served = new ServedExecs()

  async start(guest: GuestTransport, request: CommandPayload<'exec.start'>): Promise<ExecReport> {
    const { cwd, env } = request
    const [line] = await this.operate(guest, request, startArgs(request), { cwd, env, started: request })
    return own(parseStatus(line!), request)
  }

  async list(guest: GuestTransport, target: Target): Promise<ExecReport[]> {
    return reportsOf(await this.operate(guest, target, ['list']))
  }

  /** Those that run in a guest that may have none: nothing is installed for that. */
  async running(guest: GuestTransport, target: Target): Promise<ExecReport[]> {
    const known = this.#places.get(target.desktopId)
    for (const place of known ? [known] : supervisorPlaces) {
      const lines = await ifInstalled(runIn(guest, target, place, listRunning, { timeoutSecs: lookSecs }))
      if (lines) return reportsOf(lines)
    }
    // Those that a release before started have its program.
    const { exitCode } = await guest.exec(plain(target, hasExecsScript, { timeoutSecs: lookSecs }))
    return exitCode === 0 ? reportsOf(await this.operate(guest, target, listRunning)) : []
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
    const [line, head = '', data = ''] = await this.#ask(guest, request, args, { timeoutSecs })
    const [, from, count] = /^data (\d{1,16}) (\d{1,7})$/.exec(head) ?? badAnswer()
    if (Buffer.byteLength(data, 'base64') !== Number(count)) badAnswer()
    return { exec: own(parseStatus(line!), request), offset: Number(from), data }
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
    return answer === undefined ? this.operate(guest, target, args, options) : answerOf(answer)
  }

  /** Runs an operation of the supervisor; if there is none, after its installation. */
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
      return runIn(guest, target, await this.#install(guest, target), args, options)
    }
  }

  async #install(guest: GuestTransport, target: Target): Promise<string> {
    const { desktopId } = target
    const joined = this.#installing.get(desktopId)
    if (joined) return joined
    const installing = install(guest, target).finally(() => this.#installing.delete(desktopId))
    this.#installing.set(desktopId, installing)
    const place = await installing
    this.#places.set(desktopId, place)
    return place
  }
}

/** Puts the program into the first place that can have it and run it. */
async function install(guest: GuestTransport, target: Target): Promise<string> {
  for (const place of supervisorPlaces) {
    if (await works(guest, target, place)) return place
    const { exitCode } = await guest.exec(plain(target, makePlaceScript(place), { timeoutSecs: installSecs }))
    if (exitCode !== 0) continue
    const file = await guest.createFile(programIn(place), 0o700)
    try {
      await file.write(supervisorProgram)
      await file.commit()
    } catch (error) {
      await file.abandon().catch(() => undefined)
      if (!(error instanceof Refusal) || error.code === 'guest_unavailable') throw error
      continue
    }
    if (await works(guest, target, place)) return place
  }
  throw new Refusal(
    'exec_unsupported',
    'the guest has no writable folder that runs programs, or another processor than x86-64',
  )
}

async function works(guest: GuestTransport, target: Target, place: string): Promise<boolean> {
  return (await ifInstalled(runIn(guest, target, place, ['check'])))?.[0] === 'ready'
}

/** Undefined if the guest has no such program. */
async function ifInstalled(running: Promise<string[]>): Promise<string[] | undefined> {
  try {
    return await running
  } catch (error) {
    if (error instanceof Refusal && error.code === 'command_not_run') return undefined
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
