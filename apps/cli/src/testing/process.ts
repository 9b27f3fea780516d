// Runs the real command line as a process of its own, for tests.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { problem, type Script, serve } from '@dormouse/client/testing/scripted-server'
import { onTestFinished } from 'vitest'

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

/** A scripted service, and the CLI configured for it. */
export async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const env = {
    DORMOUSE_URL: server.baseUrl,
    DORMOUSE_API_KEY: 'svc_sk_secret',
    DORMOUSE_OPERATOR_KEY: 'svc_op_secret',
  }
  const dormouse = (args: string[], options: RunOptions = {}) =>
    run(pinnedNode, [door, ...args], { ...options, env: { ...env, ...options.env } })
  return { dormouse, env, baseUrl: server.baseUrl, seen: server.seen }
}

/** A service that refuses everything in the same way. */
export function refusing(status: number, code: string, detail: string, extra: object = {}) {
  return start(() => problem(status, code, detail, extra))
}
