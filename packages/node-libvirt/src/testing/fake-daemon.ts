/**
 * For tests: a daemon on a unix socket, made of the same codecs. It replies as the test sets it, and can do all that a failing
 * one does: hang, drop the connection, reply late, send something before its reply, send nothing, stop reading.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeFrame, type Frame, FrameSplitter, messageStatus, messageType } from '../frames.ts'
import {
  type Args,
  errorBody,
  type Procedure,
  type ProcedureName,
  procedures,
  programs,
  type Result,
} from '../protocol.ts'
import { type Codec, record, XdrReader } from '../xdr.ts'

type Answer<N extends ProcedureName> = (
  args: Args<N>,
  client: FakeClient,
  frame: Frame,
) => Result<N> | Promise<Result<N>>
type AnyProcedure = Procedure<unknown, unknown>

/** What a handler throws to have the daemon refuse. */
export class Refusal extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

const names = new Map(
  Object.entries(procedures).map(([name, { program, number }]) => [`${program}:${number}`, name as ProcedureName]),
)
const empty = record({})

/** One connection, seen from the daemon. */
export class FakeClient {
  readonly socket: Socket
  readonly received: ProcedureName[] = []
  pings = 0
  pongs = 0
  inFlight = 0

  constructor(socket: Socket) {
    this.socket = socket
  }

  drop(): void {
    this.socket.destroy()
  }

  send<T>(frame: Omit<Frame, 'body'>, codec: Codec<T>, value: T): void {
    this.socket.write(encodeFrame(frame, codec, value))
  }

  /** An event, or a keepalive with the other program. */
  say<T>(procedure: number, codec: Codec<T>, value: T, program: number = programs.remote): void {
    this.send({ program, procedure, type: messageType.message, serial: 0, status: messageStatus.ok }, codec, value)
  }

  ping(): void {
    this.say(1, empty, {}, programs.keepalive)
  }
}

export class FakeDaemon implements AsyncDisposable {
  readonly socketPath: string
  readonly clients: FakeClient[] = []
  /** The most calls that one connection ever had in flight. */
  mostInFlight = 0
  /** Whether keepalives are answered. */
  pongs = true
  readonly #folder = mkdtempSync(join(tmpdir(), 'fake-libvirt-'))
  readonly #answers = new Map<ProcedureName, Answer<ProcedureName>>()
  #server: Server | undefined

  private constructor() {
    this.socketPath = join(this.#folder, 'sock')
    this.answer('authList', () => ({ types: [0] }))
    this.answer('connectOpen', () => ({}))
    this.answer('connectDomainEventCallbackRegisterAny', ({ event }) => ({ callback: event }))
  }

  static async start(): Promise<FakeDaemon> {
    const daemon = new FakeDaemon()
    await daemon.listen()
    return daemon
  }

  answer<N extends ProcedureName>(name: N, answer: Answer<N>): void {
    this.#answers.set(name, answer as unknown as Answer<ProcedureName>)
  }

  /** The connections that are open. */
  get open(): FakeClient[] {
    return this.clients.filter(({ socket }) => !socket.destroyed)
  }

  async listen(): Promise<void> {
    this.#server = createServer((socket) => this.#accept(socket))
    await new Promise<void>((resolve) => this.#server?.listen(this.socketPath, resolve))
  }

  /** The daemon dies: every connection breaks and nobody listens. */
  async die(): Promise<void> {
    for (const client of this.open) client.drop()
    const server = this.#server
    this.#server = undefined
    if (server) await new Promise((resolve) => server.close(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.die()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #accept(socket: Socket): void {
    const client = new FakeClient(socket)
    this.clients.push(client)
    const splitter = new FrameSplitter((frame) => void this.#receive(client, frame))
    socket.on('data', (chunk) => splitter.push(chunk))
    socket.on('error', () => socket.destroy())
  }

  async #receive(client: FakeClient, frame: Frame): Promise<void> {
    if (frame.program === programs.keepalive) return this.#onKeepalive(client, frame)
    const name = names.get(`${frame.program}:${frame.procedure}`)
    if (!name) throw new Error(`a call of the unknown procedure ${frame.procedure}`)
    client.received.push(name)
    this.mostInFlight = Math.max(this.mostInFlight, ++client.inFlight)
    await this.#reply(client, frame, name)
    client.inFlight--
  }

  async #reply(client: FakeClient, frame: Frame, name: ProcedureName): Promise<void> {
    const { args, result } = procedures[name] as AnyProcedure
    const header = { ...frame, type: messageType.reply, status: messageStatus.ok as number }
    try {
      const answer = this.#answers.get(name)
      if (!answer) throw new Refusal(39, `unknown procedure: ${frame.procedure}`)
      const value = await answer(args.read(new XdrReader(frame.body)) as never, client, frame)
      client.send(header, result, value)
    } catch (error) {
      const { code, message } = error as Refusal
      const rest = {
        about: undefined,
        str1: undefined,
        str2: undefined,
        str3: undefined,
        int1: 0,
        int2: 0,
        network: undefined,
      }
      client.send({ ...header, status: messageStatus.error }, errorBody, {
        code,
        domain: 7,
        message,
        level: 2,
        ...rest,
      })
    }
  }

  #onKeepalive(client: FakeClient, { procedure }: Frame): void {
    if (procedure === 2) client.pongs++
    else client.pings++
    if (procedure === 1 && this.pongs) client.say(2, empty, {}, programs.keepalive)
  }
}

/** A promise that never settles: a call that hangs. */
export function forever(): Promise<never> {
  return new Promise(() => {})
}

/** Waits, bounded, until the condition holds. */
export async function until(condition: () => boolean, what = 'the condition', limitMs = 30_000): Promise<void> {
  const deadline = Date.now() + limitMs
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`${what} did not come about within ${limitMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
