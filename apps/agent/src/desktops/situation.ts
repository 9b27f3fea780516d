// What there truly is of one desktop, right now: its domain, its saved memory, its disk. Looked at afresh before every
// decision, so that a repeated, interrupted or lost command is nothing special.
import type { DesktopId, Observation } from '@dormouse/contract'
import type { Domain, Mark } from '../driver/driver.ts'
import { wholeMagic } from '../driver/saved-file.ts'
import { eachOf } from '../mechanics/locks.ts'
import type { Ground } from './ground.ts'
import type { Entry } from './journal.ts'
import type { MemoryImage } from './memory-images.ts'
import type { Turn } from './turns.ts'

export interface Situation {
  domain: Domain | undefined
  /** All that lies there, newest first. */
  images: MemoryImage[]
  /** The one image that may be restored, once. */
  usable: MemoryImage | undefined
  memory: Observation['memory']
  disk: boolean
}

export async function look(on: Ground, desktopId: DesktopId): Promise<Situation> {
  // The domain last: a save that ends meanwhile is then seen with its file, never without either.
  const disk = await on.driver.hasDisk(desktopId)
  const before = await on.memory.list(desktopId)
  const domain = await on.driver.domain(desktopId)
  const images = domain ? before : await on.memory.list(desktopId)
  return { domain, disk, images, ...judge(images, domain, on.journal.read(desktopId)) }
}

/** How many folders of saved memories are read at once. */
const foldersAtOnce = 32

/**
 * Everything that there is, by one listing of each kind however many desktops there were. In the order of `look`: disks,
 * saved memories, domains; and the memories of what has no domain once more.
 */
export async function lookAtAll(on: Ground): Promise<Map<DesktopId, Situation>> {
  const disks = new Set(await on.driver.disks())
  const before = await savedMemories(on, await on.memory.desktops())
  const domains = new Map((await on.driver.domains()).map((domain) => [domain.desktopId, domain]))
  const saved = await on.memory.desktops()
  const after = await savedMemories(
    on,
    saved.filter((id) => !domains.has(id)),
  )
  const there = new Set([...disks, ...before.keys(), ...domains.keys(), ...after.keys()])
  return new Map(
    [...there].map((id) => {
      const domain = domains.get(id)
      const images = (domain ? before : after).get(id) ?? []
      return [id, { domain, disk: disks.has(id), images, ...judge(images, domain, on.journal.read(id)) }]
    }),
  )
}

async function savedMemories(on: Ground, desktopIds: DesktopId[]): Promise<Map<DesktopId, MemoryImage[]>> {
  return new Map(await eachOf(desktopIds, foldersAtOnce, async (id) => [id, await on.memory.list(id)] as const))
}

/** Looks when nothing is being saved any more: what an agent before this one had begun, the hypervisor finishes. */
export async function lookAtRest(on: Ground, desktopId: DesktopId): Promise<Situation> {
  await on.driver.jobEnded(desktopId)
  return look(on, desktopId)
}

/** Which image may be restored, if the domain is the one given; the newest alone counts, since each older one was used or overtaken. */
export function judge(images: MemoryImage[], domain: Domain | undefined, entry: Entry | undefined) {
  const [newest] = images
  const memory = newest ? stateOf(newest, domain, entry) : 'none'
  return { memory, usable: memory === 'complete' || memory === 'damaged' ? newest : undefined }
}

function stateOf(image: MemoryImage, domain: Domain | undefined, entry: Entry | undefined): Observation['memory'] {
  const { state, bytes } = image.manifest
  if (state === 'spent' || entry?.spent.includes(image.file)) return 'spent'
  if (state === 'complete') return image.bytes === bytes && image.magic === wholeMagic ? 'complete' : 'damaged'
  // A save writes the whole magic last. With a domain still there, memory lives in the domain, and the file is void.
  if (image.magic === wholeMagic && domain === undefined) return 'complete'
  return image.bytes === null ? 'none' : 'partial'
}

/** Restored, and stopped before its first vCPU ran: what it holds is still in the image as well. */
export function neverRan({ domain, memory }: Situation): boolean {
  return domain?.state === 'paused' && memory === 'complete'
}

/** An image whose save was interrupted after its last byte is as good as any: its manifest is completed. */
export async function finished(on: Ground, image: MemoryImage): Promise<MemoryImage> {
  return image.manifest.state === 'intended' ? on.memory.complete(image) : image
}

/** Whether a process holds the desktop's memory. */
export const holdsMemory = ({ domain }: Situation): boolean => domain !== undefined && domain.state !== 'stopped'

/** Writes down, in journal and manifests, that no image of the desktop may be restored again. */
export async function spendAll(on: Ground, turn: Turn, note: Parameters<Turn['note']>[0]): Promise<void> {
  const images = await on.memory.list(turn.fence.desktopId)
  await turn.note({ ...note, spent: images.map(({ file }) => file) })
  for (const image of images) if (image.manifest.state !== 'spent') await on.memory.spend(image)
}

/** Removes the images that must never be restored again. Only when nothing is being saved. */
export async function removeSpent(on: Ground, desktopId: DesktopId): Promise<void> {
  const { images, domain } = await lookAtRest(on, desktopId)
  const entry = on.journal.read(desktopId)
  for (const image of images) if (stateOf(image, domain, entry) === 'spent') await on.memory.remove(image)
  await removeVoid(on, desktopId)
}

/** What an interrupted save left under a guest that went on: whole or not, the disk has moved on from it. */
export async function removeVoid(on: Ground, desktopId: DesktopId): Promise<void> {
  const { images, domain } = await lookAtRest(on, desktopId)
  if (!domain) return
  for (const image of images) if (image.manifest.state === 'intended') await on.memory.remove(image)
}

/** Removes all that is older than the one image that counts. */
export async function removeOlder(on: Ground, than: MemoryImage): Promise<void> {
  for (const image of await on.memory.list(than.manifest.desktopId)) {
    if (image.file !== than.file) await on.memory.remove(image)
  }
}

export function markOf(on: Ground, { desktopId, generation, turn, operationId }: Turn['fence']): Mark {
  return { installationId: on.installationId, desktopId, generation, turn, operationId }
}
