// libvirt's errors as refusals. A customer may read the sentence, so it names no path of the host.
import { Refusal, refuse } from '@dormouse/contract'
import { CallTimeout, ConnectionLost, isLibvirtError } from '@dormouse/node-libvirt'

/** What the call returns; its error becomes a refusal that begins with `what`, such as "the disk could not be made". */
export async function orRefuse<T>(what: string, call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw asRefusal(what, error)
  }
}

/** After a lost connection the outcome is unknown; a repeated call finds it out. */
export function asRefusal(what: string, error: unknown): unknown {
  if (error instanceof ConnectionLost || error instanceof CallTimeout) {
    return withCause(new Refusal('host_unreachable', 'libvirt on the desktop’s host does not answer'), error)
  }
  if (!isLibvirtError(error)) return error
  if (noSpace.test(error.message))
    return withCause(new Refusal('host_disk_full', `${what}: the host’s disk is full`), error)
  return withCause(new Refusal('hypervisor_failed', `${what}: ${withoutPaths(error.message)}`), error)
}

const noSpace = /no space left|disk quota exceeded/i

/** For `.catch`: ignores that the domain does not exist or does not run, so what was to end has ended. */
export function unlessGone(error: unknown): undefined {
  if (isLibvirtError(error, 'noDomain', 'operationInvalid')) return undefined
  throw error
}

const withoutPaths = (message: string) => message.replace(/'?\/[\w.@%+/-]+'?/g, '(path)')

function withCause(refusal: Refusal, cause: unknown): Refusal {
  refusal.cause = cause
  return refusal
}

export const refuseDamaged = (why: string): never =>
  refuse(
    'memory_image_damaged',
    `the saved memory cannot be restored: ${withoutPaths(why)}; it is kept; wake with discard_memory to boot from disk`,
  )
