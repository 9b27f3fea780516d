// A guest agent whose guest is this machine: starts programs and writes files as qemu-ga does, so that the transport's
// scripts run in a real shell. Like qemu-ga it reports `exited` only once the output has ended too.
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, closeSync, existsSync, openSync, readSync, writeSync } from 'node:fs'
import { type AgentCall, AgentRefused } from '../driver/guest-access.ts'

interface Started {
  child: ChildProcess
  out: Buffer[]
  err: Buffer[]
  closed: { code: number | null; signal: NodeJS.Signals | null } | undefined
}

const signals: Partial<Record<NodeJS.Signals, number>> = {
  SIGKILL: 9,
  SIGTERM: 15,
  SIGSEGV: 11,
  SIGPIPE: 13,
  SIGINT: 2,
}

export class LocalAgent {
  readonly calls: string[] = []
  /** The nonces of all commands, by which their files are recognised. */
  readonly nonces = new Set<string>()
  /** The largest call so far, in bytes. */
  largest = 0
  readonly #started = new Map<number, Started>()
  /** Handles, and what was written to each and is buffered until it is flushed or closed, as qemu-ga does. */
  readonly #open = new Map<number, Buffer[]>()
  /** While true, the disk accepts nothing more of what is buffered. */
  full = false
  readonly #shell: string

  /** `shell` replaces the guest's /bin/sh. */
  constructor(shell = '/bin/sh') {
    this.#shell = shell
  }

  /** How many handles are open. */
  get openFiles(): number {
    return this.#open.size
  }

  readonly call: AgentCall = async (execute, args = {}) => {
    this.calls.push(execute)
    const request = JSON.stringify({ execute, arguments: args })
    this.largest = Math.max(this.largest, Buffer.byteLength(request))
    for (const [, nonce] of request.matchAll(/\.dormouse-([0-9a-f]+)/g)) this.nonces.add(nonce!)
    switch (execute) {
      case 'guest-ping':
        return {}
      case 'guest-exec':
        return this.#exec(args as unknown as { path: string; arg: string[]; 'input-data'?: string })
      case 'guest-exec-status':
        return this.#status(args.pid as number)
      case 'guest-file-open':
        return this.#openFile(args as unknown as { path: string; mode: string })
      case 'guest-file-write':
        this.#open.get(args.handle as number)!.push(Buffer.from(args['buf-b64'] as string, 'base64'))
        return {}
      case 'guest-file-flush':
        if (this.full) throw new AgentRefused('failed to flush file: No space left on device')
        this.#flush(args.handle as number)
        return {}
      case 'guest-file-read':
        return this.#readFile(args as unknown as { handle: number; count: number })
      case 'guest-file-close':
        if (!this.full) this.#flush(args.handle as number)
        this.#open.delete(args.handle as number)
        closeSync(args.handle as number)
        return {}
      default:
        return {}
    }
  }

  #openFile({ path, mode }: { path: string; mode: string }) {
    const isNew = !existsSync(path)
    const handle = openSync(path, mode)
    if (isNew) chmodSync(path, 0o666)
    this.#open.set(handle, [])
    return handle
  }

  #flush(handle: number): void {
    for (const bytes of this.#open.get(handle)!.splice(0)) writeSync(handle, bytes)
  }

  #readFile({ handle, count }: { handle: number; count: number }) {
    const bytes = Buffer.alloc(count)
    const read = readSync(handle, bytes)
    return { count: read, 'buf-b64': bytes.toString('base64', 0, read), eof: read === 0 }
  }

  #exec({ path, arg, 'input-data': input }: { path: string; arg: string[]; 'input-data'?: string }) {
    const child = spawn(path === '/bin/sh' ? this.#shell : path, arg, { stdio: ['pipe', 'pipe', 'pipe'] })
    if (!child.pid) throw new AgentRefused('could not be started')
    const started: Started = { child, out: [], err: [], closed: undefined }
    child.stdout.on('data', (data: Buffer) => started.out.push(data))
    child.stderr.on('data', (data: Buffer) => started.err.push(data))
    child.on('close', (code, signal) => {
      started.closed = { code, signal }
    })
    child.stdin.on('error', () => undefined)
    child.stdin.end(input === undefined ? undefined : Buffer.from(input, 'base64'))
    this.#started.set(child.pid, started)
    return { pid: child.pid }
  }

  #status(pid: number) {
    const started = this.#started.get(pid)
    if (!started) throw new AgentRefused('PID does not exist')
    if (!started.closed) return { exited: false }
    const { code, signal } = started.closed
    this.#started.delete(pid)
    return {
      exited: true,
      ...(signal ? { signal: signals[signal] ?? 0 } : { exitcode: code }),
      'out-data': Buffer.concat(started.out).toString('base64'),
      'err-data': Buffer.concat(started.err).toString('base64'),
    }
  }
}
