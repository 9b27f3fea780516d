// One desktop that is awake, and what the tests of guests do with it. The desktops of a file of
// tests share an instance.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { type Client, createClient, type Desktop, type ExecBody } from '@dormouse/client'
import { expect } from 'vitest'
import { waitFor } from '../../wait-for.ts'
import type { Instance } from './instance.ts'

export class GuestStage {
  readonly instance: Instance
  readonly desktop: Desktop
  readonly client: Client

  private constructor(instance: Instance, desktop: Desktop) {
    this.instance = instance
    this.desktop = desktop
    this.client = createClient({ baseUrl: instance.local.base_url, apiKey: instance.local.api_key, retries: 0 })
  }

  /** On a desktop that is awake. */
  static async awake(instance: Instance): Promise<GuestStage> {
    const desktop = await instance.create({ imageVersion: 'mini' })
    await desktop.wake()
    return new GuestStage(instance, desktop)
  }

  /** Without a key: what runs is the command alone. */
  exec(command: string | string[], more: Partial<ExecBody> = {}) {
    return this.client.exec(this.desktop.id, { command, ...more }, { idempotencyKey: null })
  }

  /** What a command that must succeed prints. */
  async run(command: string): Promise<string> {
    const { exit_code, stdout, stderr } = await this.exec(command)
    expect({ exit_code, stderr }).toMatchObject({ exit_code: 0 })
    return stdout
  }

  put(path: string, bytes: Uint8Array<ArrayBuffer> | string, mode?: string) {
    return this.client.writeFile(this.desktop.id, path, bytes, mode ? { mode } : {})
  }

  get(path: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.client.readFile(this.desktop.id, path)
  }

  /** A transfer whose bytes the test sends, or takes, itself. */
  open(
    method: 'PUT' | 'GET',
    path: string,
    headers: Record<string, string> = {},
    route: 'files' | 'archives' = 'files',
  ): ClientRequest {
    const { base_url, api_key } = this.instance.local
    const url = new URL(`/v1/desktops/${this.desktop.id}/${route}${path}`, base_url)
    const opened = request(url, { method, agent: false, headers: { authorization: `Bearer ${api_key}`, ...headers } })
    return opened.on('error', () => undefined)
  }

  /** What is answered to a path as it stands, which no client would send so. */
  async status(method: string, path: string): Promise<number | undefined> {
    const { base_url, api_key } = this.instance.local
    const { hostname, port } = new URL(base_url)
    const headers = { authorization: `Bearer ${api_key}` }
    const asked = request({ hostname, port, method, path, agent: false, headers }).end()
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  }

  /** Waits until commands work (again). */
  async works(withinMs = 60_000): Promise<void> {
    await waitFor(async () => (await codeOf(this.exec('true'))) === 'done', withinMs)
  }

  /** The process that runs the guest. */
  get qemu(): number {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return Number(pids.find((pid) => isQemuOf(pid, this.desktop.id)))
  }
}

/** The code of a refusal; `done` if there is none. */
export const codeOf = (asked: Promise<unknown>): Promise<string> =>
  asked.then(
    () => 'done',
    (error) => error.problem?.code ?? String(error),
  )

export const md5 = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('hex')

function isQemuOf(pid: string, desktopId: string): boolean {
  try {
    return new RegExp(`\\0-name\\0guest=[^,]*${desktopId}`).test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
  } catch {
    return false
  }
}
