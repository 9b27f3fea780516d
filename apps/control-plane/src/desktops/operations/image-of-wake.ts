// The registered image of a desktop's first disk: which one it is, and what a host is sent of it.
import { type ImageRef, imageFolderName, imageRef } from '@dormouse/contract'
import { z } from 'zod'
import type { Images } from '../../images/service.ts'
import type { StepContext } from '../../operations/definition.ts'
import type { OperationRow } from '../../operations/store.ts'
import { inputOf } from './input.ts'

const findings = z.object({ image: imageRef.optional() })

/**
 * The image that the disk is to be made from; undefined if there is a disk, or if nobody has registered the image. A
 * desktop that is bound to a host keeps the version that was chosen for it there. Refuses if the version is retired.
 */
export async function imageOf(
  images: Images,
  { operation }: { operation: Pick<OperationRow, 'input'> },
): Promise<ImageRef | undefined> {
  const { from, hostId, spec } = inputOf({ operation })
  if (from !== 'created') return undefined
  return hostId === null ? images.resolve(spec.imageVersion) : images.madeFrom(spec.imageVersion)
}

/** What the host needs to make the disk, or to find it made. */
export function diskRequest(context: Pick<StepContext, 'operation' | 'findings'>) {
  const { spec } = inputOf(context)
  const { image } = findings.parse(context.findings)
  return image ? { spec: { ...spec, imageVersion: imageFolderName(image) }, image } : { spec }
}
