// Whether another host can take a desktop: checked before anything is copied.
import { type CommandPayload, type CommandResult, type DesktopId, refuse } from '@dormouse/contract'
import { isWarm, look } from '../desktops/situation.ts'
import type { MoveDeps } from './held.ts'

/** What another host must have to take the desktop as it is now. */
export async function traits(deps: MoveDeps, desktopId: DesktopId): Promise<CommandResult<'move.traits'>> {
  const now = await look(deps, desktopId)
  const { domain, usable, disk } = now
  if (!disk) refuse('disk_missing', 'the desktop’s disk is not on this host')
  const memory = domain && !isWarm(now) ? undefined : usable
  const found = await deps.driver.moves.traits(desktopId, memory?.path)
  return { ...found, memoryBytes: memory?.bytes ?? 0 }
}

/** Whether this host can take it, and whether it must fetch the registered image before. */
export async function check(
  { driver, listener }: MoveDeps,
  { spec, traits, image, mayRelay }: CommandPayload<'move.check'>,
): Promise<CommandResult<'move.check'>> {
  if (!listener.isOpen && !mayRelay) return { misfit: 'the host accepts no moves; set DORMOUSE_AGENT_MOVE_ADDRESS' }
  if (traits.driver !== driver.kind) return { misfit: `the host’s hypervisor is ${driver.kind}, not ${traits.driver}` }
  const fetches = !(await driver.moves.hasImage(traits.imageDigest))
  if (fetches && !image) return { misfit: `the host does not have the same image "${spec.imageVersion}"` }
  // First: the hypervisor makes the folder whose space counts.
  const misfit = await driver.moves.misfit(traits)
  const needed = traits.diskBytes + traits.memoryBytes + (fetches ? image!.bytes : 0)
  const isFull = misfit === null && (await driver.freeDiskBytes()) < needed
  return { misfit: isFull ? 'the host’s disk has no space for the desktop' : misfit, fetches }
}
