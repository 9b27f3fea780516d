// The registry of images: what a name means, and where hosts fetch it. Knows only those functions of hosts that the wiring
// passes in.
import {
  type AddImageBody,
  type HostImageJson,
  type ImageFetch,
  type ImageJson,
  type ImageRef,
  imageFolderName,
  imageNameParts,
  Refusal,
  refusalWithCause,
  refuse,
  refuseField,
} from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import { type Note, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import * as store from './store.ts'

/** What a host reports of its images. */
export interface HostWithImages {
  id: string
  name: string
  images: string[]
  digests: { image: string; digest: string }[]
  /** Null if its agent cannot fetch images. */
  fetches: ImageFetch[]
  /** Null if it makes none. */
  templates: TemplateSize[] | null
  /** Whether new desktops come to it: no operator keeps them away. */
  isOpen: boolean
}

/** The size of desktops that begin with a template of that image. */
interface TemplateSize {
  image: string
  memoryMiB: number
  vcpus: number
}

export interface ImagesOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  /** The hosts that are neither lost nor removed. */
  hosts: () => Promise<HostWithImages[]>
  /** The size of most new desktops: for it, hosts make templates of the images that they fetch in advance. */
  usualSize: { vcpus: number; memoryMiB: number; diskGiB: number }
  log: Log
}

/** The number of hosts that try to read a manifest before the request fails. */
const maxReaders = 3
const inspectMs = 15_000
/** How many hosts fetch ahead of need at once: they share one web server. */
const prefetchAtOnce = 20
/** A host that could not fetch an image, or has no template of it, gets the request again after this. */
const askAgainMs = 60_000

export class Images {
  readonly #options: ImagesOptions
  /** When each host got the request to fetch, or to make a template of, which image. */
  readonly #asked = new Map<string, number>()

  constructor(options: ImagesOptions) {
    this.#options = options
  }

  /**
   * The registered image that the caller's text means; undefined if nobody has registered it: then hosts look for a folder
   * of that name. Refuses if the version is retired.
   */
  async resolve(text: string): Promise<ImageRef | undefined> {
    const { name, version } = imageNameParts(text)
    const image = await store.find(this.#options.pool, name, version)
    if (!image) return undefined
    if (image.retiredAt) throw refusalWithCause('image_unavailable', `the image ${imageFolderName(image)} is retired`)
    return refOf(image)
  }

  /** The image that a desktop was made from, retired or not. */
  async madeFrom(text: string): Promise<ImageRef | undefined> {
    const { name, version } = imageNameParts(text)
    const image = version === undefined ? undefined : await store.find(this.#options.pool, name, version)
    return image && refOf(image)
  }

  /** Registers a version; the same content again renews its source. A host reads the manifest: this process fetches nothing. */
  async add(body: AddImageBody, note: Note): Promise<ImageJson> {
    const { name, version, from: source, digest, prefetch } = body
    const found = await this.#inspect(source)
    if (found.name !== name) refuseField('name', `is ${name}, but the manifest is of ${imageFolderName(found)}`)
    if (found.version !== version)
      refuseField('version', `is ${version}, but the manifest is of ${imageFolderName(found)}`)
    if (digest && digest !== found.digest)
      refuseField('digest', `is not that of the manifest, which has ${found.digest}`)
    const image = { name, version, digest: found.digest, source, bytes: found.bytes }
    await this.#options.leadership.transaction(async (tx) => {
      if (!(await store.put(tx, { ...image, prefetch: prefetch ?? false }))) {
        refuse(
          'conflict',
          `${name}@${version} is registered with another content; register this one as another version`,
        )
      }
      await note(tx, imageFolderName(image), { from: source, digest: found.digest, prefetch: prefetch ?? false })
    })
    this.#asked.clear()
    void this.prefetch().catch((err: unknown) => this.#options.log.warn({ err }, 'hosts could not be asked to fetch'))
    return this.get(name, version)
  }

  /** From now on the name means this version. Idempotent. */
  async use(name: string, version: string, note: Note): Promise<ImageJson> {
    await this.#options.leadership.transaction(async (tx) => {
      const image = (await store.lock(tx, name, version)) ?? unknown(name, version)
      if (image.retiredAt) refuse('conflict', `${name}@${version} is retired; add it again to use it`)
      await store.use(tx, name, version)
      await note(tx, `${name}@${version}`, image.inUse ? null : {})
    })
    return this.get(name, version)
  }

  /** No new desktop is made from this version. Those that were made from it keep it. Idempotent. */
  async retire(name: string, version: string, note: Note): Promise<ImageJson> {
    await this.#options.leadership.transaction(async (tx) => {
      const image = (await store.lock(tx, name, version)) ?? unknown(name, version)
      if (image.inUse)
        refuse('conflict', `the name ${name} means ${version}; use another version before you retire this one`)
      if (!image.retiredAt) await store.retire(tx, name, version)
      await note(tx, `${name}@${version}`, image.retiredAt ? null : {})
    })
    return this.get(name, version)
  }

  async list(): Promise<ImageJson[]> {
    const { pool, hosts } = this.#options
    return retryWhileUnavailable(async () => {
      const [rows, theirs] = await Promise.all([store.list(pool), hosts()])
      return rows.map((row) => imageToJson(row, theirs))
    })
  }

  async get(name: string, version: string): Promise<ImageJson> {
    const { pool, hosts } = this.#options
    return retryWhileUnavailable(async () => {
      const row = (await store.find(pool, name, version)) ?? unknown(name, version)
      return imageToJson(row, await hosts())
    })
  }

  /**
   * If that was requested, makes hosts that lack an image fetch it, and those that have it make a template of it. To be called
   * again and again.
   */
  async prefetch(): Promise<void> {
    const { pool, links, hosts } = this.#options
    const wanted = (await store.list(pool)).filter(({ prefetch, retiredAt }) => prefetch && !retiredAt)
    if (wanted.length === 0) return
    const all = await hosts()
    const able = all.filter(({ id }) => links.takesCommands(id))
    let left = prefetchAtOnce - all.filter(({ fetches }) => fetches.some(isGoing)).length
    const now = performance.now()
    for (const [key, at] of this.#asked) if (now - at > askAgainMs) this.#asked.delete(key)
    const asking: Promise<void>[] = able.map((host) => this.#askForTemplate(host, wanted))
    for (const host of able.filter(({ fetches }) => !fetches.some(isGoing))) {
      const image = wanted.find((one) => !has(host, one) && !this.#asked.has(askedKey('fetch', host, one)))
      if (!image) continue
      if (left-- <= 0) break
      asking.push(this.#ask('fetch', host, image))
    }
    await Promise.all(asking)
  }

  /** Requests a template of one image at a time: a host makes them one after the other. */
  async #askForTemplate(host: HostWithImages, wanted: store.ImageRow[]): Promise<void> {
    const { usualSize } = this.#options
    if (!host.isOpen || host.templates === null) return
    const image = wanted.find(
      (one) =>
        has(host, one) && !hasTemplate(host, one, usualSize) && !this.#asked.has(askedKey('template', host, one)),
    )
    if (image) await this.#ask('template', host, image)
  }

  async #ask(what: Asked, host: HostWithImages, image: ImageRef): Promise<void> {
    const { links, usualSize, log } = this.#options
    this.#asked.set(askedKey(what, host, image), performance.now())
    const payload = { ...refOf(image), ...(what === 'template' && { template: usualSize }) }
    await links
      .command(host.id, 'image.fetch', payload, { timeoutMs: inspectMs })
      .catch((err: unknown) => log.info({ err, host: host.id, what }, 'a host could not be asked to prepare an image'))
  }

  /** The manifest at the source, as a host reads it. */
  async #inspect(source: string): Promise<Pick<ImageRef, 'name' | 'version' | 'digest' | 'bytes'>> {
    const { links, hosts } = this.#options
    const able = (await hosts()).filter(({ id }) => links.takesCommands(id))
    let why: string | undefined
    for (const { id, name } of able.slice(0, maxReaders)) {
      try {
        return await links.command(id, 'image.inspect', { source }, { timeoutMs: inspectMs })
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const reason = error.extra.cause ?? error.detail
        if (error.code === 'image_not_fetched') why = `cannot be read: ${name} reports: ${reason}`
        else this.#options.log.info({ host: id, why: reason }, 'a host could not read the manifest of an image')
      }
    }
    if (why !== undefined) refuseField('from', why)
    return refuse('host_unreachable', 'no linked host can read the image; link one, and retry')
  }
}

type Asked = 'fetch' | 'template'

const askedKey = (what: Asked, { id }: HostWithImages, { digest }: ImageRef): string => `${what} ${id} ${digest}`

const hasTemplate = (
  { templates }: HostWithImages,
  image: ImageRef,
  { vcpus, memoryMiB }: ImagesOptions['usualSize'],
): boolean =>
  templates?.some(
    (one) => one.image === imageFolderName(image) && one.vcpus === vcpus && one.memoryMiB === memoryMiB,
  ) ?? false

const refOf = ({ name, version, digest, source, bytes }: ImageRef): ImageRef => ({
  name,
  version,
  digest,
  source,
  bytes,
})

const unknown = (name: string, version: string): never =>
  refuse('not_found', `there is no image ${name}@${version}; \`dormouse admin image list\` names them`)

const isGoing = ({ state }: ImageFetch): boolean => state !== 'failed'

const has = (host: HostWithImages, image: ImageRef): boolean => {
  const name = imageFolderName(image)
  return host.digests.some((one) => one.image === name && one.digest === image.digest)
}

function hostImage(host: HostWithImages, image: ImageRef): HostImageJson {
  const name = imageFolderName(image)
  const templates = host.templates?.filter((each) => each.image === name).length ?? 0
  const one = { host_id: host.id, host_name: host.name, done_bytes: null, error: null, templates }
  if (has(host, image)) return { ...one, state: 'present' }
  const fetch = host.fetches.findLast((each) => each.image === name && each.digest === image.digest)
  if (!fetch) return { ...one, state: 'absent' }
  return { ...one, state: fetch.state, done_bytes: isGoing(fetch) ? fetch.doneBytes : null, error: fetch.why }
}

const imageToJson = (row: store.ImageRow, hosts: HostWithImages[]): ImageJson => ({
  name: row.name,
  version: row.version,
  digest: row.digest,
  from: row.source,
  bytes: row.bytes,
  in_use: row.inUse,
  prefetch: row.prefetch,
  retired_at: row.retiredAt?.toISOString() ?? null,
  hosts: hosts.map((host) => hostImage(host, row)),
  created_at: row.createdAt.toISOString(),
})
