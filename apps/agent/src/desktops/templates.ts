// The templates of this host: which there are, which is to be made next, and which are removed. They are made in the background, one
// at a time. Losing one costs a first wake some time, and nothing else.
import { type DesktopId, type DesktopSpec, type HostFacts, newId } from '@dormouse/contract'
import { eachApart, eachDone, type Log, ReadWriteLock } from '@dormouse/process'
import type { TemplateTraits } from '../driver/templates.ts'
import { before } from '../mechanics/deadlines.ts'
import type { Journal } from './journal.ts'
import { type MakeDeps, makeTemplate, type TemplateWish } from './make-template.ts'
import { keyOf, type Template } from './template-folders.ts'
import type { WarmCopies } from './warm-copies.ts'

export interface TemplatesDeps extends MakeDeps {
  journal: Pick<Journal, 'all'>
  warm: Pick<WarmCopies, 'makeSpace' | 'hasSpaceFor'>
  freeBytes: () => Promise<number>
  /** With less than this free, templates and images are removed. */
  lowWaterBytes: () => Promise<number>
  log: Log
}

export interface TemplateOptions {
  /** How much of the disk they may fill together; 0 makes none. */
  maxMiB: number
}

const mib = 1024 * 1024
/** What is waiting to be made. */
const maxWishes = 8
/** After this many failures in a row, a template is not made or used any more until the agent starts again. */
const maxFailures = 3
const maxRemembered = 100
const pauseAfterFailureMs = 60_000
/** What stays free for the guests that run already. */
const reserveBytes = 2 * 1024 ** 3

interface Making {
  key: string
  wish: TemplateWish
  buildId: string
  /** Aborts if a desktop needs the memory of its guest. */
  gaveWay: AbortController
  ended: Promise<void>
}

type TraitsFrom = (driver: TemplatesDeps['driver']) => Promise<TemplateTraits | undefined>

/** How long a wake waits for the look at the templates that there are. */
const openMs = 5_000

export class Templates {
  readonly #deps: TemplatesDeps
  readonly #maxMiB: number
  readonly #use = new ReadWriteLock()
  readonly #usable = new Map<string, Template>()
  readonly #wishing = new Set<Promise<void>>()
  readonly #wishes = new Map<string, TemplateWish>()
  readonly #failures = new Map<string, { times: number; until: number }>()
  /** What was missing the last time, so that it is said once. */
  readonly #lacked = new Map<string, string>()
  readonly #closing = new AbortController()
  #making: Making | undefined
  /** What placement may fill with awake desktops. */
  #capacityMiB = Infinity
  /** Whether nothing is left of one that was being made, by this agent or one before it. */
  #isCleared = false
  #isClearing = false
  #isOpen = false
  #opening: Promise<void> | undefined

  constructor(deps: TemplatesDeps, { maxMiB }: TemplateOptions) {
    this.#deps = deps
    this.#maxMiB = maxMiB
  }

  get facts(): NonNullable<HostFacts['templates']> {
    return [...this.#usable.values()].map(({ imageVersion: image, traits: { memoryMiB, vcpus }, bytes }) => {
      return { image, memoryMiB, vcpus, mib: Math.ceil(bytes / mib) }
    })
  }

  /** The names of images from which one is being made. */
  get imagesInUse(): string[] {
    return this.#making ? [this.#making.wish.spec.imageVersion] : []
  }

  /** To be called every minute or so. The first time, and after a failure of that, it finds what an agent before this one has left. */
  async check(): Promise<void> {
    this.#opening = this.#lookAtOld()
    await this.#opening
    const failed = (err: unknown, { imageVersion: image }: Template) =>
      this.#deps.log.warn({ err, image }, 'the image of a template could not be looked for; retrying')
    await eachApart(this.#oldestFirst(), { atOnce: 1, failed }, async (template) => {
      if (!(await this.#deps.driver.templates.hasImage(template.traits.image)))
        await this.#remove(template, 'its image is gone')
    })
    await this.#keepWithin(this.#maxMiB * mib)
    this.#makeNext()
  }

  async #lookAtOld(): Promise<void> {
    if (!this.#isCleared && !this.#making) await this.#clear()
    if (!this.#isOpen) await this.#open()
  }

  /** A wake that comes as soon as the agent has started may find the templates that there are. Not waited for long. */
  async opened(): Promise<void> {
    if (!this.#isOpen) await before(performance.now() + openMs, Promise.resolve(this.#opening)).catch(() => undefined)
  }

  /**
   * Ends and removes what the making of a template has left. What fails is tried again later, and delays nothing else. Never
   * throws.
   */
  async #clear(): Promise<void> {
    const { driver, folders, log } = this.#deps
    this.#isClearing = true
    const end = async () => eachDone(await folders.builds(), (buildId) => driver.templates.end(buildId))
    const works = [end, () => driver.templates.endAll(), () => folders.clearLeftovers()]
    try {
      await eachDone(works, (work) => work())
      this.#isCleared = true
    } catch (err) {
      log.warn({ err }, 'what a template has left is still there; retrying')
    }
    this.#isClearing = false
  }

  /**
   * A template that an earlier process has made counts only if templates are used at all, and once its digests match its
   * manifest.
   */
  async #open(): Promise<void> {
    const { folders, log } = this.#deps
    const failed = (err: unknown, { imageVersion: image }: Template) =>
      log.warn({ err, image }, 'a template that is not used could not be removed')
    await eachApart(await folders.list(), { atOnce: 1, failed }, async (template) => {
      const { key, imageVersion: image } = template
      if (this.#maxMiB > 0 && (await folders.isWhole(template))) {
        this.#usable.set(key, template)
        return
      }
      await folders.remove(key)
      const why = this.#maxMiB > 0 ? 'it was damaged; another is made when it is wanted' : 'this host is to have none'
      log.warn({ image, why }, 'a template was removed')
    })
    this.#isOpen = true
  }

  /** One for a desktop with these traits, and a disk of this size. */
  find(traits: TemplateTraits, { diskGiB }: DesktopSpec): Template | undefined {
    const template = this.#usable.get(keyOf(traits))
    return template && template.diskGiB <= diskGiB ? template : undefined
  }

  /** It is there, with all its files, while the work runs; undefined if it was removed meanwhile. */
  async using<T>(template: Template, work: () => Promise<T>): Promise<T | undefined> {
    return this.#use.read(async () => {
      if (this.#usable.get(template.key) !== template) return undefined
      await this.#deps.folders.noteUse(template)
      return work()
    })
  }

  /** A copy of it has not become a desktop. If it was removed or replaced meanwhile, that means nothing. */
  async failed(template: Template): Promise<void> {
    const { key } = template
    if (this.#usable.get(key) !== template || this.#countFailure(key) < maxFailures) return
    await this.#remove(template, `${maxFailures} first wakes from it have failed`)
  }

  /** A copy of it has become a desktop. */
  worked({ key }: Template): void {
    this.#failures.delete(key)
  }

  /** A desktop was booted from its image: the next one like it may begin with a template. Returns at once. */
  want(desktopId: DesktopId, spec: DesktopSpec): void {
    this.#begin(spec, false, ({ templates }) => templates.traits(desktopId, spec))
  }

  /** Desktops like this are expected. Does nothing if the host does not have their image. Returns at once. */
  wantAhead(manifestDigest: string, spec: DesktopSpec): void {
    this.#begin(spec, true, ({ templates }) => templates.traitsOfImage(manifestDigest, spec))
  }

  #begin(spec: DesktopSpec, isAhead: boolean, traitsFrom: TraitsFrom): void {
    if (this.#maxMiB === 0) return
    const wishing = traitsFrom(this.#deps.driver)
      .then((traits) => traits && this.#wish({ traits, spec, isAhead }))
      .catch((err: unknown) => this.#deps.log.warn({ err }, 'no template is made'))
      .finally(() => this.#wishing.delete(wishing))
    this.#wishing.add(wishing)
  }

  async #wish(wanted: Omit<TemplateWish, 'readiness'>): Promise<void> {
    const { traits, spec } = wanted
    const key = keyOf(traits)
    const isMade = this.#making?.key === key && this.#making.wish.spec.diskGiB <= spec.diskGiB
    if (isMade || this.find(traits, spec) || this.#wishes.size >= maxWishes) return
    const readiness = await this.#deps.driver.templates.readiness(spec, traits)
    this.#wishes.set(key, { ...wanted, readiness })
    this.#makeNext()
  }

  #makeNext(): void {
    for (const key of this.#wishes.keys()) if (this.#isGivenUp(key)) this.#wishes.delete(key)
    const [next] = [...this.#wishes].filter(([key]) => this.#mayTry(key))
    const isOpen = this.#isOpen && !this.#isClearing && !this.#closing.signal.aborted
    if (!next || this.#making || !isOpen) return
    const [key, wish] = next
    this.#wishes.delete(key)
    const [buildId, gaveWay] = [newId(), new AbortController()]
    const ended = this.#make(key, wish, buildId, gaveWay.signal).finally(() => {
      this.#making = undefined
      this.#makeNext()
    })
    this.#making = { key, wish, buildId, gaveWay, ended }
  }

  /** Never throws: a wish that fails comes again with the next desktop that is booted, or is repeated by the control plane. */
  async #make(key: string, wish: TemplateWish, buildId: string, gaveWay: AbortSignal): Promise<void> {
    const { log } = this.#deps
    const { imageVersion: image, memoryMiB, vcpus } = wish.spec
    this.#isCleared = false
    try {
      const lacked = await this.#lacks(wish)
      if (lacked) return this.#drop(key, wish, lacked)
      this.#lacked.delete(key)
      const began = performance.now()
      const signal = AbortSignal.any([this.#closing.signal, gaveWay])
      const made = await makeTemplate(this.#deps, wish, { buildId, place: () => this.#place(key), signal })
      this.#failures.delete(key)
      await this.#removeOutdated(made)
      await this.#keepWithin(this.#maxMiB * mib)
      const ms = Math.round(performance.now() - began)
      log.info({ image, memoryMiB, vcpus, mib: Math.ceil(made.bytes / mib), ms }, 'a template was made')
    } catch (err) {
      if (this.#closing.signal.aborted) return
      if (gaveWay.aborted) return this.#drop(key, wish, 'desktops need the memory')
      this.#countFailure(key)
      log.warn({ err, image, memoryMiB, vcpus }, 'a template could not be made; desktops boot from their image')
    } finally {
      await this.#clear()
    }
  }

  /** No first wake is in the middle of the one that it replaces. */
  #place(key: string): Promise<Template> {
    return this.#use.write(async () => {
      this.#usable.delete(key)
      const made = await this.#deps.folders.place(key)
      this.#usable.set(key, made)
      return made
    })
  }

  /** The desktops come first: in memory, and on the disk. None is made that is removed soon; ahead of need none removes another. */
  async #lacks({ isAhead, spec: { memoryMiB } }: TemplateWish): Promise<string | undefined> {
    const { driver, warm, freeBytes, lowWaterBytes } = this.#deps
    const bytes = memoryMiB * mib
    if (bytes + (isAhead ? this.#bytes : 0) > this.#maxMiB * mib)
      return `templates may fill ${this.#maxMiB} MiB of the disk`
    const spared = Math.max(reserveBytes, await lowWaterBytes())
    if ((await freeBytes()) < bytes + spared) return 'the host’s disk is nearly full'
    this.#capacityMiB = (await driver.facts()).capacity.memoryMiB
    if (this.#awakeMiB + memoryMiB > this.#capacityMiB) return 'desktops need the memory'
    if (!isAhead) await warm.makeSpace(memoryMiB)
    return warm.hasSpaceFor(memoryMiB) ? undefined : `the host has not ${memoryMiB} MiB of memory to spare`
  }

  get #awakeMiB(): number {
    const awake = this.#deps.journal.all().filter(({ running }) => running)
    return awake.reduce((sum, { spec }) => sum + (spec?.memoryMiB ?? 0), 0)
  }

  /**
   * To be called every second, and before a guest of that size starts: the guest of a template that is being made ends if it has
   * memory that placement has given to desktops, or that they use. Never throws.
   */
  async giveWay(besideMiB = 0): Promise<void> {
    const { driver, warm, log } = this.#deps
    if (!this.#making) return
    const { buildId, gaveWay, wish } = this.#making
    const countedMiB = this.#awakeMiB + besideMiB + wish.spec.memoryMiB
    if (warm.hasSpaceFor(besideMiB) && countedMiB <= this.#capacityMiB) return
    gaveWay.abort(new Error('desktops need the memory'))
    await driver.templates
      .end(buildId)
      .catch((err: unknown) => log.warn({ err }, 'the guest of a template could not be ended; retrying'))
  }

  /** No failure: its turn may come. */
  #drop(key: string, { spec: { imageVersion: image, memoryMiB, vcpus } }: TemplateWish, why: string): void {
    if (this.#lacked.get(key) !== why)
      this.#deps.log.info({ image, memoryMiB, vcpus, why }, 'a template is not made now')
    if (this.#lacked.size >= maxRemembered) this.#lacked.clear()
    this.#lacked.set(key, why)
  }

  /** Removes the one that was used longest ago, again and again, while the condition holds. */
  async removeWhile(condition: () => Promise<boolean>): Promise<void> {
    for (const template of this.#oldestFirst()) {
      if (!(await condition())) return
      await this.#remove(template, 'the disk is nearly full')
    }
  }

  /** The same for a folder, which may be on another disk. */
  async makeSpaceOn(folder: string, isShort: () => boolean | Promise<boolean>): Promise<void> {
    if (await this.#deps.folders.isOnDiskOf(folder)) await this.removeWhile(async () => isShort())
  }

  /** Its image is about to be removed. */
  async removeOn(manifestDigest: string): Promise<void> {
    for (const template of this.#oldestFirst()) {
      if (template.traits.image === manifestDigest) await this.#remove(template, 'its image is removed')
    }
  }

  /** Waits until nothing is being made. */
  async settled(): Promise<void> {
    await Promise.all(this.#wishing)
    while (this.#making) await this.#making.ended
  }

  /** Ends what is being made, and leaves what is there. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the agent was closed'))
    await this.#making?.ended
  }

  /** The same of an earlier version of the hypervisor, or of another setting, is of no use. */
  async #removeOutdated({ key, traits: { image, memoryMiB, vcpus } }: Template): Promise<void> {
    for (const other of this.#oldestFirst()) {
      const { traits } = other
      const isSame = traits.image === image && traits.memoryMiB === memoryMiB && traits.vcpus === vcpus
      if (isSame && other.key !== key) await this.#remove(other, 'it would be made in another way now')
    }
  }

  #keepWithin(maxBytes: number): Promise<void> {
    return this.removeWhile(async () => this.#bytes > maxBytes)
  }

  get #bytes(): number {
    return [...this.#usable.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  #oldestFirst(): Template[] {
    return [...this.#usable.values()].sort((a, b) => a.usedAt - b.usedAt)
  }

  /** Never throws: nobody uses it any more, and one that leaves something delays no other. */
  async #remove(template: Template, why: string): Promise<void> {
    const { folders, log } = this.#deps
    if (this.#usable.get(template.key) !== template) return
    this.#usable.delete(template.key)
    const { key, imageVersion: image } = template
    try {
      await this.#use.write(async () => {
        // Another one may have taken its place.
        if (!this.#usable.has(key)) await folders.remove(key)
      })
      log.info({ image, why }, 'a template was removed')
    } catch (err) {
      this.#isCleared = false
      log.warn({ err, image, why }, 'a template is not used any more, but not all of it could be removed; retrying')
    }
  }

  #isGivenUp(key: string): boolean {
    return (this.#failures.get(key)?.times ?? 0) >= maxFailures
  }

  #mayTry(key: string): boolean {
    return performance.now() >= (this.#failures.get(key)?.until ?? 0)
  }

  #countFailure(key: string): number {
    const times = (this.#failures.get(key)?.times ?? 0) + 1
    this.#failures.set(key, { times, until: performance.now() + pauseAfterFailureMs })
    return times
  }
}
