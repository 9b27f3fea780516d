// Programs of the release before, from their pinned build, as processes of their own. Knows nothing of the present source.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endWithUs } from '../../../scripts/ground/end-with-us.ts'
import { identify, run } from '../../../scripts/ground/processes.ts'
import { unpackRelease } from '../../compat/pinned.ts'
import { freePort } from '../../free-port.ts'
import { plainFetch } from '../../openapi.ts'
import { waitFor } from '../../wait-for.ts'

export interface OldProgram {
  /** Ends it in order; a second call does nothing. */
  stop(): Promise<void>
}

export interface OldControlPlane extends OldProgram {
  url: string
}

export class ReleaseBefore {
  readonly #folder = mkdtempSync(join(tmpdir(), 'dormouse-before-'))
  readonly #running: OldProgram[] = []

  constructor() {
    unpackRelease(this.#folder)
  }

  /** Migrates an empty database as that release did, and makes an operator's key. */
  async operatorKey(databaseUrl: string): Promise<string> {
    const made = await run(process.execPath, [this.#main('control-plane'), 'operator-key'], {
      env: { ...process.env, DATABASE_URL: databaseUrl },
    })
    return made.trim()
  }

  /** Returns when it is ready: it leads, or knows who does. */
  async controlPlane(databaseUrl: string): Promise<OldControlPlane> {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const { stop, failed } = this.#start('control-plane', {
      DATABASE_URL: databaseUrl,
      PORT: String(port),
      DORMOUSE_LEASE_SECS: '30',
      DORMOUSE_HEARTBEAT_SECS: '0.2',
    })
    const isReady = () => plainFetch(`${url}/readyz`).then(({ ok }) => ok, failed)
    await waitFor('the control plane of the release before', isReady)
    return { url, stop }
  }

  /** A simulated host. */
  agent(name: string, controlPlane: string, invite: string): OldProgram {
    return this.#start('agent', {
      DORMOUSE_AGENT_CONTROL_PLANES: controlPlane,
      DORMOUSE_AGENT_ENROL_TOKEN: invite,
      DORMOUSE_AGENT_NAME: name,
      DORMOUSE_AGENT_STATE_DIR: join(this.#folder, name),
      DORMOUSE_AGENT_DRIVER: 'simulated',
    })
  }

  /** `failed` throws, with the log, if the program has ended by itself; else it returns false. */
  #start(app: string, env: Record<string, string>): OldProgram & { failed: () => false } {
    const logFile = join(this.#folder, `${app}.log`)
    const log = openSync(logFile, 'a')
    const child = spawn(process.execPath, [this.#main(app)], {
      stdio: ['ignore', log, log],
      env: { PATH: process.env.PATH, ...env },
    })
    closeSync(log)
    endWithUs(identify(child.pid!)!, 'SIGKILL')
    const program = {
      stop: () => ended(child),
      failed: () => {
        if (child.exitCode === null && child.signalCode === null) return false as const
        throw new Error(`the ${app} of the release before ended:\n${readFileSync(logFile, 'utf8').slice(-4_000)}`)
      },
    }
    this.#running.push(program)
    return program
  }

  #main(app: string): string {
    return join(this.#folder, app, 'main.js')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.toReversed().map((program) => program.stop()))
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
}
