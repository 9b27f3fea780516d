// The processes of a run: each in its own session, with a log file, restarted when it ends unexpectedly.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { alive, type Identity, identify, type Say, signal, waitGone } from '../testbed/processes.ts'
import { readJson } from './instance.ts'

export interface ChildOptions {
  name: string
  /** A TypeScript file, from the root of the repository. */
  file: string
  /** Put before the command: what it runs in. */
  within?: string[]
  env: Record<string, string>
  /** Holds its pid file and its log. */
  runDir: string
  say: Say
}

export interface Child {
  logFile: string
  readonly pid: number | undefined
  stop(): Promise<void>
}

const root = fileURLToPath(new URL('../../', import.meta.url))
const restartPauseMs = 500
const longestPauseMs = 30_000
/** A process that ran this long was restarted well. */
const steadyMs = 60_000
const stopTimeoutMs = 15_000

/** Starts the process, and restarts it whenever it ends unexpectedly. */
export async function keepRunning({ name, file, within = [], env, runDir, say }: ChildOptions): Promise<Child> {
  const pidFile = join(runDir, `${name}.pid`)
  const logFile = join(runDir, `${name}.log`)
  let stopping = false
  let current: Identity | undefined
  let pauseMs = restartPauseMs

  const launch = () => {
    const log = openSync(logFile, 'a', 0o600)
    const [command, ...words] = [...within, process.execPath, join(root, file)]
    const child = spawn(command!, words, {
      cwd: root,
      detached: true,
      stdio: ['ignore', log, log],
      // Code is compiled once: later starts are faster and take a fifth less memory.
      env: { ...essentials(), NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled'), ...env },
    })
    closeSync(log)
    current = child.pid ? identify(child.pid) : undefined
    if (current) writeFileSync(pidFile, JSON.stringify(current))
    const began = performance.now()
    child.on('exit', async (code, signalName) => {
      current = undefined
      if (stopping) return
      say(`${name} ended unexpectedly (${signalName ?? `exit code ${code}`}); restarting it; log: ${logFile}`)
      pauseMs = performance.now() - began > steadyMs ? restartPauseMs : Math.min(longestPauseMs, pauseMs * 2)
      await sleep(pauseMs / 2)
      if (!stopping) relaunch()
    })
  }
  /** Its folder may be lost, which the watch over the database reports. */
  const relaunch = () => {
    try {
      launch()
    } catch (error) {
      say(`${name} failed to start: ${(error as Error).message}`)
    }
  }
  launch()

  return {
    logFile,
    get pid() {
      return current?.pid
    },
    stop: async () => {
      stopping = true
      await end(current)
      rmSync(pidFile, { force: true })
    },
  }
}

/** The only variables that a process takes from our environment. */
function essentials(): Record<string, string> {
  const names = ['PATH', 'HOME', 'LANG', 'TZ', 'NODE_EXTRA_CA_CERTS']
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])))
}

/** Ends every process that a killed run left in that folder, including those that this run does not start. */
export async function endLeftovers(runDir: string): Promise<void> {
  mkdirSync(runDir, { recursive: true })
  const files = readdirSync(runDir).filter((name) => name.endsWith('.pid'))
  for (const file of files) {
    await end(readJson<Identity>(join(runDir, file)))
    rmSync(join(runDir, file))
  }
}

async function end(identity: Identity | undefined): Promise<void> {
  if (!identity || !alive(identity)) return
  signal(identity, 'SIGTERM')
  if (await waitGone([identity], stopTimeoutMs)) return
  signal(identity, 'SIGKILL')
  await waitGone([identity], stopTimeoutMs)
}
