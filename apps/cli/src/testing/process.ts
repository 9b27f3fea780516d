// Runs the command line for tests: as a process of its own, or in this one if that makes no difference. A process takes a third
// of a second of processor time.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { problem, type Script, serve } from '@dormouse/client/testing/scripted-server'
import { onTestFinished } from 'vitest'
import { createContext } from '../context.ts'
import { runProgram } from '../main.ts'
import { startProgress } from '../progress.ts'
import { printable, type Terminal } from '../terminal.ts'

export const cloneRoot = join(import.meta.dirname, '../../../..')
export const pinnedNode = join(cloneRoot, 'node_modules/.bin/node')
export const door = join(import.meta.dirname, '../../bin/dormouse.js')

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunOptions {
  env?: Record<string, string | undefined>
  cwd?: string
  stdin?: string | Buffer
  /** Sees the process while it runs. */
  whileRunning?: (child: ChildProcess) => void
}

/** An empty folder that goes with the test. */
export function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'dormouse-cli-'))
  onTestFinished(() => rmSync(made, { recursive: true }))
  return made
}

/** Runs a program to its end with only PATH of our environment. */
export async function run(program: string, args: string[], options: RunOptions = {}): Promise<Ended> {
  const env = { PATH: `${join(cloneRoot, 'node_modules/.bin')}:${process.env.PATH}`, ...options.env }
  const child = spawn(program, args, { env, cwd: options.cwd ?? folder(), stdio: 'pipe' })
  child.stdin.on('error', () => {}).end(options.stdin ?? '')
  options.whileRunning?.(child)
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { code, stdout, stderr }
}

/** These read and write the process's own streams, or set its exit code. */
const ofProcess = new Set(['attach', 'clipboard', 'cp', 'exec', 'input', 'logs', 'mcp', 'screenshot', 'shell', 'start'])

const needsProcess = ([verb = '']: string[], options: RunOptions): boolean =>
  ofProcess.has(verb) || 'cwd' in options || 'stdin' in options || 'whileRunning' in options

/** Runs the command line in this process. */
async function runHere(args: string[], env: Record<string, string | undefined>): Promise<Ended> {
  const said = { stdout: '', stderr: '' }
  const note = (text: string) => {
    said.stderr += `${printable(text)}\n`
  }
  const terminal: Terminal = {
    signal: new AbortController().signal,
    takeSignals: () => () => undefined,
    write: (text) => {
      said.stdout += text
    },
    note,
    during: (_, work) => work(),
    interactive: false,
    ask: async (question) => {
      note(question)
      return ''
    },
    progress: (label, total) => startProgress(label, total),
  }
  const code = await runProgram(createContext(terminal, env, [folder()]), args)
  return { code: code ?? 0, ...said }
}

/** A scripted service, and the CLI configured for it. */
export async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const env = {
    DORMOUSE_URL: server.baseUrl,
    DORMOUSE_API_KEY: 'svc_sk_secret',
    DORMOUSE_OPERATOR_KEY: 'svc_op_secret',
  }
  const dormouse = (args: string[], options: RunOptions = {}) => {
    const given = { ...options, env: { ...env, ...options.env } }
    return needsProcess(args, options) ? run(pinnedNode, [door, ...args], given) : runHere(args, given.env)
  }
  return { dormouse, env, baseUrl: server.baseUrl, seen: server.seen }
}

/** A service that refuses everything in the same way. */
export function refusing(status: number, code: string, detail: string, extra: object = {}) {
  return start(() => problem(status, code, detail, extra))
}
