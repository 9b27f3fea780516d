// What exists of a desktop right now: its domain, its saved memory, its disk. Every decision looks first, so a repeated,
// interrupted or lost command needs no special case.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DesktopId, Observation } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Domain, Driver } from '../driver/driver.ts'
import type { Mark } from '../driver/mark.ts'
import { wholeMagic } from '../driver/saved-file.ts'
import type { Journal } from './journal.ts'
import type { Entry } from './journal-entry.ts'
import type { MemoryImage, MemoryImages } from './memory-images.ts'
import type { Turn } from './turns.ts'

/** What looking at desktops needs. */
export interface LookDeps {
  driver: Driver
  journal: Journal
  memory: MemoryImages
}

export interface Situation {
  domain: Domain | undefined
  /** All saved images, newest first. */
  images: MemoryImage[]
  /** The one image that may be restored, once. */
  usable: MemoryImage | undefined
  memory: Observation['memory']
  disk: boolean
}

export async function look(deps: LookDeps, desktopId: DesktopId): Promise<Situation> {
  // The domain comes last: a save that ends meanwhile then shows at least its file.
  const disk = await deps.driver.hasDisk(desktopId)
  const before = deps.memory.list(desktopId)
  const domain = await deps.driver.domain(desktopId)
  const images = domain ? before : deps.memory.list(desktopId)
  return { domain, disk, images, ...judge(images, domain, deps.journal.read(desktopId)) }
}

/** How many folders of saved memories are read before the event loop runs other work. */
const foldersAtOnce = 50

/**
 * Everything on the host, by one listing of each kind however many desktops there are. In the order of `look`: disks, saved
 * memories, domains; then the memories of desktops without a domain once more.
 */
export async function lookAtAll(deps: LookDeps): Promise<Map<DesktopId, Situation>> {
  const disks = new Set(await deps.driver.disks())
  const before = await savedMemories(deps, await deps.memory.desktops())
  const domains = new Map((await deps.driver.domains()).map((domain) => [domain.desktopId, domain]))
  const saved = await deps.memory.desktops()
  const after = await savedMemories(
    deps,
    saved.filter((id) => !domains.has(id)),
  )
  const there = new Set([...disks, ...before.keys(), ...domains.keys(), ...after.keys()])
  return new Map(
    [...there].map((id) => {
      const domain = domains.get(id)
      const images = (domain ? before : after).get(id) ?? []
      return [id, { domain, disk: disks.has(id), images, ...judge(images, domain, deps.journal.read(id)) }]
    }),
  )
}

async function savedMemories(deps: LookDeps, desktopIds: DesktopId[]): Promise<Map<DesktopId, MemoryImage[]>> {
  const found = new Map<DesktopId, MemoryImage[]>()
  for (const [at, id] of desktopIds.entries()) {
    found.set(id, deps.memory.list(id))
    if (at % foldersAtOnce === 0) await nextTurn()
  }
  return found
}

/** Looks when no save is in progress: the hypervisor finishes one that an earlier agent process began. */
export async function lookAtRest(deps: LookDeps, desktopId: DesktopId): Promise<Situation> {
  await deps.driver.jobEnded(desktopId)
  return look(deps, desktopId)
}

/** Which image may be restored beside this domain. Only the newest counts: each older one was used, or the guest ran on. */
export function judge(images: MemoryImage[], domain: Domain | undefined, entry: Entry | undefined) {
  const [newest] = images
  const memory = newest ? stateOf(newest, domain, entry) : 'none'
  return { memory, usable: memory === 'complete' || memory === 'damaged' ? newest : undefined }
}

function stateOf(image: MemoryImage, domain: Domain | undefined, entry: Entry | undefined): Observation['memory'] {
  const { state, bytes } = image.manifest
  if (state === 'spent' || entry?.spent.includes(image.file)) return 'spent'
  if (state === 'complete') return image.bytes === bytes && image.magic === wholeMagic ? 'complete' : 'damaged'
  // A save writes the final magic last. While a domain exists, the memory is in the domain and the file is void.
  if (image.magic === wholeMagic && domain === undefined) return 'complete'
  return image.bytes === null ? 'none' : 'partial'
}

/** Restored, and paused before its first vCPU ran: the image still holds the same memory. */
export function neverRan({ domain, memory }: Situation): boolean {
  return domain?.state === 'paused' && memory === 'complete'
}

/**
 * A paused process is a copy of the whole image, as its own save has left it: that marked both. What a restore makes has the mark
 * of the wake.
 */
export function isWarm({ domain, memory, images: [newest] }: Pick<Situation, 'domain' | 'memory' | 'images'>): boolean {
  if (domain?.state !== 'paused' || domain.pause === 'space' || memory !== 'complete' || !newest) return false
  const { mark } = domain
  const { generation, turn, operationId } = newest.manifest
  return mark.generation === generation && mark.turn === turn && mark.operationId === operationId
}

/** Completes the manifest of an image whose save was interrupted after its last byte. */
export async function finished(deps: LookDeps, image: MemoryImage): Promise<MemoryImage> {
  return image.manifest.state === 'intended' ? deps.memory.complete(image) : image
}

/** Whether a process holds the desktop's memory. */
export const holdsMemory = ({ domain }: Situation): boolean => domain !== undefined && domain.state !== 'stopped'

/** Records in journal and manifests that no image of the desktop may be restored again. Both are on the disk afterwards. */
export async function spendAll(deps: LookDeps, turn: Turn, note: Parameters<Turn['note']>[0]): Promise<void> {
  const images = deps.memory.list(turn.fence.desktopId)
  // If the journal refuses, no manifest may say that its image was used.
  await turn.note({ ...note, spent: images.map(({ file }) => file) }, { syncLater: true })
  const unspent = images.filter(({ manifest }) => manifest.state !== 'spent')
  await together([turn.synced(), ...unspent.map((image) => deps.memory.spend(image))])
}

/** Removes the images that must never be restored again. Only when no save is in progress. */
export async function removeSpent(deps: LookDeps, desktopId: DesktopId): Promise<void> {
  const now = await lookAtRest(deps, desktopId)
  const entry = deps.journal.read(desktopId)
  for (const image of now.images) if (stateOf(image, now.domain, entry) === 'spent') await deps.memory.remove(image)
  await removeVoid(deps, now)
}

/** Removes what an interrupted save left beside a guest that runs on: whole or not, the disk has changed since. */
export async function removeVoid({ memory }: Pick<LookDeps, 'memory'>, { domain, images }: Situation): Promise<void> {
  if (!domain) return
  for (const image of images) if (image.manifest.state === 'intended') await memory.remove(image)
}

/** Removes all images but the one that counts. */
export async function removeOlder(deps: LookDeps, than: MemoryImage): Promise<void> {
  for (const image of deps.memory.list(than.manifest.desktopId)) {
    if (image.file !== than.file) await deps.memory.remove(image)
  }
}

export function markOf(
  { installationId }: { installationId: string },
  { desktopId, generation, turn, operationId }: Turn['fence'],
): Mark {
  return { installationId, desktopId, generation, turn, operationId }
}
