// Templates as folders: a saved boot of an image each, whole once it has its manifest and its name. Knows nothing of who makes
// one, and of who gets a copy.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { id, newId } from '@dormouse/contract'
import { eachDone } from '@dormouse/process'
import { z } from 'zod'
import { type TemplateTraits, templateFiles, templateMemory } from '../driver/templates.ts'
import { privateFolder, syncPath, unlessMissing, writeDurably } from '../mechanics/durable-file.ts'
import { parseJson } from '../mechanics/parse-json.ts'
import { sealedGuest } from '../scripts/seal.ts'

const fileFacts = z.object({ bytes: z.int().min(0), sha256: z.string() })

const manifestSchema = z.object({
  traits: z.object({
    image: z.string(),
    memoryMiB: z.int(),
    vcpus: z.int(),
    machine: z.string(),
    cpuModel: z.string(),
    emulator: z.string(),
    hypervisor: z.string(),
    kvm: z.boolean(),
    memory: z.enum(templateMemory).default('copied'),
  }),
  /** The name of its image when it was made. */
  imageVersion: z.string(),
  diskGiB: z.int().min(1),
  guest: sealedGuest,
  disk: fileFacts,
  memory: fileFacts,
  /** Only if the memory is mapped. */
  devices: fileFacts.optional(),
  domain: fileFacts.optional(),
})
type Manifest = z.infer<typeof manifestSchema>

export interface Template extends Manifest {
  key: string
  path: string
  bytes: number
  usedAt: number
}

const manifestName = 'manifest.json'
/** While one is made: the id of its guest. */
const buildName = 'build'
const makingSuffix = '.new'
const goneSuffix = '.gone'
/** For this user, and for QEMU's if the file has its group. */
const readOnly = 0o440
/** QEMU opens the file for writing, and writes nothing. */
const writable = 0o660
const blockBytes = 512
/** The version of what is done to a guest before it is saved. Templates of a release that did less are not used. */
const sealedAs = 2

/** The name of the folder. */
export function keyOf(traits: TemplateTraits): string {
  const { image, memoryMiB, vcpus, machine, cpuModel, emulator, hypervisor, kvm, memory } = traits
  const all = [sealedAs, image, memoryMiB, vcpus, machine, cpuModel, emulator, hypervisor, kvm, memory]
  return createHash('sha256').update(JSON.stringify(all)).digest('hex').slice(0, 32)
}

export class TemplateFolders {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  /** Those that are whole, as far as their manifests say. */
  async list(): Promise<Template[]> {
    const names = (await readdir(this.#root).catch(unlessMissing)) ?? []
    const found = await Promise.all(names.filter((name) => /^[\da-f]{32}$/.test(name)).map((key) => this.#read(key)))
    return found.filter((template) => template !== undefined)
  }

  /** A folder in which one is made, with nothing but the id of its guest. */
  async begin(key: string, buildId: string): Promise<string> {
    privateFolder(this.#root, 0o711)
    const path = this.#path(`${key}${makingSuffix}`)
    await rm(path, { recursive: true, force: true })
    await mkdir(path, { mode: 0o711 })
    await writeFile(join(path, buildName), buildId)
    return path
  }

  /** The ids of guests that may have left something: one for each folder that never became a template. */
  async builds(): Promise<string[]> {
    const names = (await readdir(this.#root).catch(unlessMissing)) ?? []
    const making = names.filter((name) => name.endsWith(makingSuffix))
    // A guest whose file cannot be read is found by its name.
    const read = (name: string) => readFile(join(this.#path(name), buildName), 'utf8').catch(() => undefined)
    const ids = await Promise.all(making.map(read))
    // A file that was cut short holds no id: its guest was never booted.
    return ids.flatMap((buildId) => id.safeParse(buildId).data ?? [])
  }

  /** What was made is whole, and on the host's disk, when this returns. */
  async finish(key: string, facts: Omit<Manifest, keyof typeof templateFiles>): Promise<void> {
    const path = this.#path(`${key}${makingSuffix}`)
    const form = facts.traits.memory
    const seal = (name: keyof typeof templateFiles, mode?: number) => sealFile(join(path, templateFiles[name]), mode)
    const files = {
      disk: await seal('disk'),
      memory: await seal('memory', form === 'mapped-writable' ? writable : readOnly),
      ...(form !== 'copied' && { devices: await seal('devices'), domain: await seal('domain') }),
    }
    await rm(join(path, buildName))
    await writeDurably(join(path, manifestName), JSON.stringify({ ...facts, ...files } satisfies Manifest, null, 1))
  }

  /** What was finished replaces an older one, which nobody uses now. */
  async place(key: string): Promise<Template> {
    await this.remove(key)
    await rename(this.#path(`${key}${makingSuffix}`), this.#path(key))
    await syncPath(this.#root)
    const made = await this.#read(key)
    if (!made) throw new Error('a template that was made cannot be read')
    return made
  }

  /** It is no template any more before its files go. */
  async remove(key: string): Promise<void> {
    // A new name, as an earlier removal may have left something.
    const gone = this.#path(`${key}.${newId()}${goneSuffix}`)
    await rename(this.#path(key), gone).catch(unlessMissing)
    await syncPath(this.#root)
    await rm(gone, { recursive: true, force: true })
  }

  /** Removes what was being made or removed, and what cannot be read. */
  async clearLeftovers(): Promise<void> {
    const templates = new Set((await this.list()).map(({ key }) => key))
    const names = (await readdir(this.#root).catch(unlessMissing)) ?? []
    const left = names.filter((name) => !templates.has(name))
    await eachDone(left, (name) => rm(this.#path(name), { recursive: true, force: true }))
  }

  /** Whether what is removed here frees space for that folder. */
  async isOnDiskOf(folder: string): Promise<boolean> {
    const [ours, theirs] = await Promise.all([this.#root, folder].map((path) => stat(path).catch(unlessMissing)))
    return ours !== undefined && ours.dev === theirs?.dev
  }

  /** Whether its files are what they were when it was made. What cannot be read is not. */
  async isWhole(template: Template): Promise<boolean> {
    for (const name of filesOf(template)) {
      const found = await digestOf(join(template.path, templateFiles[name])).catch(() => undefined)
      if (found !== template[name]?.sha256) return false
    }
    return true
  }

  async noteUse(template: Template): Promise<void> {
    template.usedAt = Date.now()
    await utimes(template.path, new Date(), new Date())
  }

  async #read(key: string): Promise<Template | undefined> {
    const path = this.#path(key)
    const text = await readFile(join(path, manifestName), 'utf8').catch(() => undefined)
    const manifest = text === undefined ? undefined : manifestSchema.safeParse(parseJson(text)).data
    if (!manifest) return undefined
    const { mtimeMs: usedAt } = await stat(path)
    const bytes = filesOf(manifest).reduce((sum, name) => sum + (manifest[name]?.bytes ?? 0), 0)
    return { ...manifest, key, path, usedAt, bytes }
  }

  #path(name: string): string {
    return join(this.#root, name)
  }
}

const filesOf = (manifest: Manifest) => {
  const names = ['disk', 'memory', 'devices', 'domain'] as const
  return names.filter((name) => manifest.traits.memory !== 'copied' || name === 'disk' || name === 'memory')
}

/** On the host's disk, and not to be changed any more. Files may have holes: what counts is what they fill. */
async function sealFile(path: string, mode = readOnly): Promise<z.infer<typeof fileFacts>> {
  await chmod(path, mode)
  await syncPath(path)
  return { bytes: (await stat(path)).blocks * blockBytes, sha256: await digestOf(path) }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(chunk)
  return hash.digest('hex')
}
