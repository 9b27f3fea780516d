// Templates whose memory's file desktops map, each privately: the host holds once what no desktop has changed, and a first wake
// copies no memory. If QEMU cannot do it here, desktops get copies until the agent starts again.
import { chmod, chown, open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type DesktopSpec, Refusal } from '@dormouse/contract'
import { type Domain as Handle, xmlFlag } from '@dormouse/node-libvirt'
import type { Mark } from '../mark.ts'
import { type MadeTemplate, type TemplateMemory, templateFiles } from '../templates.ts'
import { type BootDeps, onThisHost, shortenAgentTimeout } from './boot.ts'
import { offerClipboard } from './clipboard.ts'
import { loadDevices, saveDevices } from './device-state.ts'
import { asRefusal } from './failures.ts'
import { withMappedMemory, withoutArguments } from './memory-object.ts'
import { type MoveFolder, openMoveFolder } from './move-sockets.ts'
import { isOlder } from './versions.ts'

export type Share = 'auto' | 'on' | 'off'

interface SharedMemoryDeps extends BootDeps {
  movesDir: string
  share: Share
}

/** The first QEMU that opens a file read-only whose memory a guest may write. */
const readOnlySince = '8.2'
const mib = 1024 * 1024
/** In a row: after that, desktops get copies. */
const maxFailures = 2
/** Instead of a desktop's id: one template is made at a time. */
const makingId = 'template'
const givenUp = 'QEMU cannot share the memory of templates here; desktops copy it until the agent starts again'

export class SharedMemory {
  readonly #deps: SharedMemoryDeps
  #failures = 0

  constructor(deps: SharedMemoryDeps) {
    this.#deps = deps
  }

  form(qemu: string): TemplateMemory {
    const { share } = this.#deps
    if (share === 'off' || this.#failures >= maxFailures) return 'copied'
    if (!isOlder(qemu, readOnlySince)) return 'mapped-read-only'
    return share === 'on' ? 'mapped-writable' : 'copied'
  }

  /** Creates the template's guest with its memory in a file of that folder, which is closed to all but this user and QEMU's. */
  async boot(
    folder: string,
    xml: string,
    { memoryMiB }: DesktopSpec,
    create: (xml: string) => Promise<unknown>,
  ): Promise<void> {
    const path = join(folder, templateFiles.memory)
    await this.#counted('the template’s guest could not be started', async () => {
      const file = await open(path, 'wx')
      await file.truncate(memoryMiB * mib).finally(() => file.close())
      await this.#admitQemu(folder, 0o710, 0o700)
      await this.#admitQemu(path, 0o660, 0o600)
      await create(withMappedMemory(xml, { path, access: 'all' }))
    })
  }

  async save(handle: Handle, folder: string): Promise<void> {
    await this.#counted('the template’s memory could not be saved', async () => {
      await handle.suspend()
      // As libvirt writes it for a host that is to continue with the guest.
      const xml = withoutArguments(await handle.xml(xmlFlag.migratable | xmlFlag.secure))
      await writeFile(join(folder, templateFiles.domain), xml)
      const sockets = await this.#sockets(makingId, 'agent')
      const saving = saveDevices(handle, sockets.path('devices'), join(folder, templateFiles.devices))
      await saving.finally(() => sockets.remove())
      await handle.destroy()
    })
  }

  async start({ path: folder, traits }: MadeTemplate, mark: Mark): Promise<void> {
    const { installation, disks, log } = this.#deps
    const access = traits.memory === 'mapped-read-only' ? 'private-read-only' : 'private'
    const handle = installation.domain(mark.desktopId)
    await this.#counted('the desktop could not begin with the template', async () => {
      const saved = await readFile(join(folder, templateFiles.domain), 'utf8')
      const file = { path: join(folder, templateFiles.memory), access } as const
      const xml = withMappedMemory(await onThisHost(this.#deps, saved, mark), file)
      await installation.session.host.domains.createXml(xml, { paused: true })
      const sockets = await this.#sockets(mark.desktopId, 'qemu')
      const loading = loadDevices(handle, sockets.path('devices'), join(folder, templateFiles.devices))
      await loading.finally(() => sockets.remove())
    })
    if ((await disks.imageOf(mark.desktopId)).clipboard) await offerClipboard(handle, log)
    await shortenAgentTimeout(this.#deps, mark.desktopId)
  }

  /** In the configured folder, whose path is short enough for sockets. */
  async #sockets(id: string, listener: 'agent' | 'qemu'): Promise<MoveFolder> {
    const { capabilities } = await this.#deps.installation.ready()
    return openMoveFolder({ base: this.#deps.movesDir, suffix: '' }, id, capabilities.owner, listener)
  }

  /** `modeAlone` is for a QEMU that runs as this user. */
  async #admitQemu(path: string, mode: number, modeAlone: number): Promise<void> {
    const { owner } = (await this.#deps.installation.ready()).capabilities
    const isRoot = process.getuid?.() === 0
    if (owner && isRoot) await chown(path, 0, owner.gid)
    await chmod(path, owner && isRoot ? mode : modeAlone)
  }

  /** If libvirt does not answer, or a disk is full, that shows nothing about QEMU. */
  async #counted(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
      this.#failures = 0
    } catch (error) {
      const err = asRefusal(what, error)
      const isOfHost = err instanceof Refusal && err.code !== 'hypervisor_failed'
      if (!isOfHost && ++this.#failures === maxFailures) this.#deps.log.warn({ err }, givenUp)
      throw err
    }
  }
}
