// What a step of a drain needs on another host.
import type { DrainAction, DrainReason, Refusal } from '@dormouse/contract'
import { type DesktopRow, specOf } from '../desktops/store.ts'
import type { PlacementRequest } from '../hosts/store.ts'
import type { Images } from '../images/service.ts'

/**
 * What must be free elsewhere before the step begins. A desktop that is awake needs its memory there, even if it is only
 * hibernated: without it, its owner could not wake it again elsewhere. `mayRelay`: moves from its host may be relayed.
 */
export function needsOf(desktop: DesktopRow, action: DrainAction, mayRelay = false): PlacementRequest {
  const { id: desktopId, hostId } = desktop
  const { vcpus, memoryMiB, diskGiB, imageVersion: image } = specOf(desktop)
  const sleeps = action === 'move'
  const leaving = { operationId: desktopId, not: [hostId!], mayRelay }
  return { desktopId, image, diskGiB, vcpus: sleeps ? 0 : vcpus, memoryMiB: sleeps ? 0 : memoryMiB, leaving }
}

/** The same for many steps, each with what a host needs to fetch its image. */
export async function needsOfAll(
  images: Pick<Images, 'madeFrom'>,
  steps: { desktop: DesktopRow; known: { action: DrainAction } }[],
  mayRelay: boolean,
): Promise<PlacementRequest[]> {
  const needs = steps.map(({ desktop, known }) => needsOf(desktop, known.action, mayRelay))
  const names = [...new Set(needs.map(({ image }) => image))]
  const registered = new Map(await Promise.all(names.map(async (name) => [name, await images.madeFrom(name)] as const)))
  return needs.map((request) => ({ ...request, registered: registered.get(request.image) }))
}

export const reasonOf = ({ code, detail, extra }: Refusal): DrainReason => ({ code, detail: extra.cause ?? detail })
