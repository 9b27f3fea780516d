// A host whose agent runs in its guests' network: a private libvirt, and an agent of its own inside that host's network. A test
// that runs outside reaches guests as any caller does, through the control plane alone.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createAdminClient } from '@dormouse/client'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { type PrivateLibvirtd, startPrivateLibvirtd } from '../../../scripts/testbed/libvirtd.ts'
import { insideNetwork } from '../../../scripts/testbed/private-host.ts'
import { identify } from '../../../scripts/testbed/processes.ts'
import { type SharedPorts, sharePorts } from '../../../scripts/testbed/shared-ports.ts'
import { waitFor } from '../../wait-for.ts'
import type { Instance } from './instance.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

export class NetworkedHost {
  readonly libvirtd: PrivateLibvirtd
  readonly name: string
  readonly #folder: string
  #sharedPorts: SharedPorts | undefined
  #agent: ChildProcess | undefined
  #agentEnv: Record<string, string> = {}

  private constructor(folder: string, name: string, libvirtd: PrivateLibvirtd) {
    this.#folder = folder
    this.name = name
    this.libvirtd = libvirtd
  }

  /** A host that has these images and no other, linked to the instance's control plane. */
  static async start(instance: Instance, imagesDir: string): Promise<NetworkedHost> {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-networked-'))
    const name = `networked-${process.pid}`
    const say = () => undefined
    const libvirtd = await startPrivateLibvirtd({
      dir: folder,
      name,
      hostUuid: crypto.randomUUID(),
      say,
      endsWithUs: true,
    })
    const host = new NetworkedHost(folder, name, libvirtd)
    try {
      await host.#join(instance, imagesDir)
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
    return host
  }

  get log(): string {
    return readFileSync(join(this.#folder, 'agent.log'), 'utf8')
  }

  async #join(instance: Instance, imagesDir: string): Promise<void> {
    const { base_url: baseUrl, operator_key: operatorKey } = instance.local
    const admin = createAdminClient({ baseUrl, operatorKey })
    const { token } = await admin.inviteHost({ name: this.name })
    this.#sharedPorts = await sharePorts(this.libvirtd.pid, [Number(new URL(baseUrl).port)])
    const { shortDir, socketPath } = this.libvirtd
    this.#agentEnv = {
      DORMOUSE_AGENT_CONTROL_PLANES: baseUrl,
      DORMOUSE_AGENT_ENROL_TOKEN: token,
      DORMOUSE_AGENT_NAME: this.name,
      DORMOUSE_AGENT_STATE_DIR: join(shortDir, 'agent'),
      DORMOUSE_AGENT_METRICS_LISTEN: 'off',
      DORMOUSE_AGENT_TEMPLATES_MIB: '0',
      DORMOUSE_AGENT_LIBVIRT_SOCKET: socketPath,
      DORMOUSE_AGENT_SOCKETS_DIR: join(shortDir, 'sockets'),
      DORMOUSE_AGENT_IMAGES_DIR: imagesDir,
    }
    this.#startAgent()
    const linked = async () =>
      (await admin.listHosts()).hosts.some(({ name, linked, images }) => name === this.name && linked && images.length)
    await waitFor(linked, 60_000).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.log}`)
    })
  }

  /** Ends its agent without a warning, and puts another in its place, with these settings besides. */
  async killAgent(env: Record<string, string> = {}): Promise<void> {
    await ended(this.#agent, 'SIGKILL')
    Object.assign(this.#agentEnv, env)
    this.#startAgent()
  }

  #startAgent(): void {
    const log = openSync(join(this.#folder, 'agent.log'), 'a')
    const [command, ...inside] = [...insideNetwork(this.libvirtd.pid), process.execPath]
    const stdio = ['ignore', log, log] as const
    const options = { cwd: root, stdio: [...stdio], env: { PATH: process.env.PATH, ...this.#agentEnv } }
    const agent = spawn(command!, [...inside, join(root, 'apps/agent/src/main.ts')], options)
    endWithUs(identify(agent.pid!)!, 'SIGTERM')
    this.#agent = agent
    closeSync(log)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ended(this.#agent, 'SIGTERM')
    this.#sharedPorts?.close()
    await this.libvirtd.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

async function ended(child: ChildProcess | undefined, by: NodeJS.Signals): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(by)
  await exited
}
