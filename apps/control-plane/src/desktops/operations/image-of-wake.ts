// The registered image of a desktop's first disk: which one it is, and what is sent to a host about it.
import { type ImageRef, imageFolderName } from '@dormouse/contract'
import type { Images } from '../../images/service.ts'
import type { OperationRow } from '../../operations/store.ts'
import type { WakeFindings, WakeInput } from './stored.ts'

/**
 * The image for a new disk; undefined if there is a disk, or if the image is not registered. A desktop that is bound to a host
 * keeps the version that was chosen for it there. Refuses if the version is retired.
 */
export async function imageOf(images: Images, { from, hostId, spec }: WakeInput): Promise<ImageRef | undefined> {
  if (from !== 'created') return undefined
  return hostId === null ? images.resolve(spec.imageVersion) : images.madeFrom(spec.imageVersion)
}

/** What the host needs to make the disk, or to check that it exists. */
export function diskRequest({ input: { spec }, findings: { image } }: OperationRow<WakeInput, WakeFindings>) {
  return image ? { spec: { ...spec, imageVersion: imageFolderName(image) }, image } : { spec }
}
