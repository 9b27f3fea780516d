// The copies of this host: one at a time, stopped as soon as their desktop's turn begins. Knows which vaults there are.
import {
  type CommandPayload,
  type DesktopId,
  type MadeCopy,
  Refusal,
  type RefusalCode,
  refuse,
} from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import { privateFolder } from '../mechanics/durable-file.ts'
import { Repository } from '../vaults/repository.ts'
import { VaultError, type VaultTrouble } from '../vaults/restic.ts'
import { readVaults, type Vault } from '../vaults/vault-files.ts'
import { type MakeDeps, makeCopy } from './make.ts'

export interface CopiesOptions {
  /** Has the vaults' files. */
  vaultsDir: string
  cacheDir: string
  limitKiBps?: number | undefined
}

interface Running {
  copyId: string
  stop: AbortController
  made: Promise<MadeCopy>
}

export class Copies {
  readonly #options: CopiesOptions | undefined
  readonly #one = new Semaphore(1)
  readonly #running = new Map<DesktopId, Running>()
  /** Repositories that are known to be there. */
  readonly #ensured = new Set<string>()

  /** Without options there are no vaults. */
  constructor(options: CopiesOptions | undefined) {
    this.#options = options
  }

  /** Makes the copy, or joins it if it is being made. Ended by `signal`, and by `stop`. */
  async make(
    deps: MakeDeps,
    { copyId, vault, parent, ...request }: CommandPayload<'copy.make'>,
    signal: AbortSignal,
  ): Promise<MadeCopy> {
    const { desktopId } = request
    const now = this.#running.get(desktopId)
    if (now?.copyId === copyId) return now.made
    now?.stop.abort(overtaken)
    const stop = new AbortController()
    const ends = AbortSignal.any([signal, stop.signal])
    const work = () =>
      this.with(vault, ends, (repository) =>
        makeCopy(deps, repository, { ...request, parent: parent ?? undefined }, ends),
      )
    const running = { copyId, stop, made: this.#one.run(work, { signal: ends }) }
    this.#running.set(desktopId, running)
    try {
      return await running.made
    } finally {
      if (this.#running.get(desktopId) === running) this.#running.delete(desktopId)
    }
  }

  /** Returns at once: files that are removed while they are read are no harm. */
  stop(desktopId: DesktopId): void {
    this.#running.get(desktopId)?.stop.abort(overtaken)
  }

  /** Works with a vault; what is wrong with it becomes a refusal. */
  async with<T>(name: string, signal: AbortSignal, work: (repository: Repository) => Promise<T>): Promise<T> {
    const repository = await this.#open(name)
    try {
      if (!this.#ensured.has(name)) await repository.ensure(signal)
      this.#ensured.add(name)
      return await work(repository)
    } catch (error) {
      if (!(error instanceof VaultError)) throw error
      this.#ensured.delete(name)
      if (signal.aborted && signal.reason instanceof Refusal) throw signal.reason
      throw Object.assign(new Refusal(codes[error.trouble], `vault ${name}: ${error.message}`), { cause: error })
    }
  }

  async names(): Promise<string[]> {
    return (await this.#vaults()).map(({ name }) => name)
  }

  /** The files are read each time: an operator may have changed one. */
  async #vaults(): Promise<Vault[]> {
    return this.#options ? (await readVaults(this.#options.vaultsDir)).vaults : []
  }

  async #open(name: string): Promise<Repository> {
    const vault = (await this.#vaults()).find((one) => one.name === name)
    if (!vault || !this.#options) return refuse('vault_unavailable', `this host knows no vault ${name}`)
    const { cacheDir, limitKiBps } = this.#options
    return new Repository({ vault, cacheDir: privateFolder(cacheDir), limitKiBps })
  }
}

const overtaken = new Refusal('superseded', 'the desktop is in use, so its copy was stopped')

const codes: Record<VaultTrouble, RefusalCode> = {
  locked: 'vault_unavailable',
  unreachable: 'vault_unavailable',
  missing: 'vault_unavailable',
  password: 'vault_unavailable',
  no_restic: 'vault_unavailable',
  failed: 'vault_unavailable',
  stopped: 'superseded',
  full: 'vault_full',
  gone: 'copy_damaged',
  damaged: 'copy_damaged',
}
