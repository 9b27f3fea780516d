// Asks a unit that runs as root to install another version of the agent, by files: dormouse-agent-upgrade.path watches a folder
// for requests, and its service writes the result. The agent itself may install nothing. A request is an empty file whose name
// says everything, so it is there whole or not at all, and root opens no file of the agent.
import { accessSync, constants } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandPayload, CommandResult } from '@dormouse/contract'
import { readIfThere } from '../mechanics/durable-file.ts'

type Asked = CommandPayload<'agent.upgrade'>
type Result = CommandResult<'agent.upgrade'>

export class RootUnit {
  readonly #requests: string
  readonly #result: string

  constructor(folder: string) {
    this.#requests = join(folder, 'requests')
    this.#result = join(folder, 'result')
  }

  /** Whether the unit is there. It makes the folder of requests when it is enabled. */
  get isThere(): boolean {
    try {
      accessSync(this.#requests, constants.W_OK)
      return true
    } catch {
      return false
    }
  }

  /** Requests the upgrade, unless this request is known. Returns how far it is. */
  async upgrade({ upgradeId, version }: Asked): Promise<Result> {
    const [head = '', ...lines] = ((await readIfThere(this.#result)) ?? '').split('\n')
    const [, id, state, installed = null] = /^(\S+) (running|installed|failed)(?: (\S+))?$/.exec(head) ?? []
    if (id === upgradeId)
      return {
        state: state as Result['state'],
        version: installed,
        detail: lines.join('\n').trim().slice(-1_000) || null,
      }
    if (!this.isThere) return { state: 'failed', version: null, detail: 'dormouse-agent-upgrade.path is not enabled' }
    await writeFile(join(this.#requests, `${upgradeId}@${version ?? 'newest'}`), '')
    return { state: 'running', version: null, detail: null }
  }
}
