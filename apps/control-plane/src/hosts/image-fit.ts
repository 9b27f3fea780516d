// Whether a host has the image that a desktop needs, or can fetch it. Pure.
import { imageFolderName } from '@dormouse/contract'
import type { Candidate, PlacementRequest } from './store.ts'

type Host = Pick<Candidate, 'images' | 'digests' | 'freeDiskGiB'>
type Request = Pick<PlacementRequest, 'image' | 'registered'>

const gib = 1024 ** 3
/** A host keeps this much free for the guests that run already. */
const reserveGiB = 1

/** For a registered image, the name is not enough: a folder of that name may have other content. */
export function hasImage({ images, digests }: Host, { image, registered }: Request): boolean {
  if (!registered) return images.includes(image)
  const name = imageFolderName(registered)
  return digests.some((one) => one.image === name && one.digest === registered.digest)
}

/** Whether the host has the image, or could fetch it now. */
export function canHaveImage(host: Host, request: Request): boolean {
  if (hasImage(host, request)) return true
  const { registered } = request
  return registered !== undefined && host.freeDiskGiB >= registered.bytes / gib + reserveGiB
}
