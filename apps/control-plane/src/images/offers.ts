// What a desktop can be created with: registered images, those that hosts report, and the deployment's default. Knows no desktop.
import { didYouMean, imageFolderName, imageNameParts, nearest, type OfferedImageJson } from '@dormouse/contract'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import * as store from './store.ts'

export interface OffersOptions {
  pool: Pool
  /** The names of the images that any host reports which is not removed. */
  reported: () => Promise<string[]>
  defaultImage: string
}

/** How many names a refusal lists. */
const mostNames = 10
/** What the API takes as an image: a host may report any text. */
const longestName = 128

export class Offers {
  readonly #options: OffersOptions

  constructor(options: OffersOptions) {
    this.#options = options
  }

  /** The image of desktops that are created without one. */
  get defaultImage(): string {
    return this.#options.defaultImage
  }

  /** The default first, then by name. */
  async list(): Promise<OfferedImageJson[]> {
    const { pool, reported, defaultImage } = this.#options
    const [registered, names] = await retryWhileUnavailable(() => Promise.all([store.list(pool), reported()]))
    const offered = new Map<string, string | null>([[defaultImage, null]])
    const folders = new Set(registered.map(imageFolderName))
    for (const name of names) if (!folders.has(name) && isName(name)) offered.set(name, null)
    for (const image of registered) {
      if (image.retiredAt) continue
      offered.set(imageFolderName(image), imageFolderName(image))
      if (image.inUse) offered.set(image.name, imageFolderName(image))
    }
    return [...offered]
      .map(([image_version, resolved_image_version]) => ({
        image_version,
        resolved_image_version,
        is_default: image_version === defaultImage,
      }))
      .sort((a, b) => Number(b.is_default) - Number(a.is_default) || (a.image_version < b.image_version ? -1 : 1))
  }

  /** Why no desktop can be created with this image, and with which it can; undefined if it can. */
  async whyNot(image: string): Promise<string | undefined> {
    const { pool, reported, defaultImage } = this.#options
    const { name, version } = imageNameParts(image)
    const found = await retryWhileUnavailable(() => store.find(pool, name, version))
    const isRetired = found !== undefined && found.retiredAt !== null
    if (!isRetired && (found || image === defaultImage)) return undefined
    if (!isRetired && (await retryWhileUnavailable(reported)).includes(image)) return undefined
    const known = (await this.list()).map(({ image_version }) => image_version)
    const quoted = JSON.stringify(image)
    return `${isRetired ? `${quoted} is retired` : `there is no image ${quoted}`}${didYouMean(image, known)}${listed(image, known)}`
  }
}

/** Some of the names, those first that are like the given one. */
function listed(image: string, known: string[]): string {
  const first = [...new Set([...nearest(image, known), ...known])]
  const more = first.length > mostNames ? '; GET /v1/images lists all' : ''
  return `; known images: ${first.slice(0, mostNames).join(', ')}${more}`
}

const isName = (text: string): boolean => text.length > 0 && text.length <= longestName && !/\p{Cc}/u.test(text)
