// What this host reports of its images besides their names. A disk that is busy never delays a heartbeat: what was read last is
// used.
import type { HostFacts } from '@dormouse/contract'
import type { ImageFetcher } from './images/fetcher.ts'
import type { ImageStore } from './images/store.ts'
import { before } from './mechanics/deadlines.ts'

type Digests = HostFacts['imageDigests']

const waitMs = 300

export class ImageFacts {
  readonly #store: ImageStore
  readonly #fetcher: Pick<ImageFetcher, 'states'>
  #known: Digests = []
  #reading: Promise<Digests> | undefined

  constructor(store: ImageStore, fetcher: Pick<ImageFetcher, 'states'>) {
    this.#store = store
    this.#fetcher = fetcher
  }

  async current(): Promise<Pick<HostFacts, 'imageDigests' | 'fetches'>> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const imageDigests = (await before(performance.now() + waitMs, this.#reading)) ?? this.#known
    return { imageDigests, fetches: this.#fetcher.states() }
  }

  async #read(): Promise<Digests> {
    const images = await this.#store.all()
    this.#known = images.map(({ name, image }) => ({ image: name, digest: image.manifestDigest }))
    return this.#known
  }
}
