// What this host has of each desktop, as observed.
import { type DesktopId, type Observation, Refusal } from '@dormouse/contract'
import { before } from '../mechanics/deadlines.ts'
import type { Entry } from './journal-entry.ts'
import { isWarm, judge, type LookDeps, look, lookAtAll, type Situation } from './situation.ts'

/** For a guest that may be asleep. QEMU reports that at once; a QEMU that hangs never does. */
const asleepMs = 2_000

/** What exists of one desktop now; undefined if nothing does and nothing ever did. */
export async function observe(deps: LookDeps, desktopId: DesktopId): Promise<Observation | undefined> {
  const seen = toObservation(deps, desktopId, await look(deps, desktopId))
  if (seen?.domain !== 'running' || !shouldRun(deps.journal.read(desktopId))) return seen
  return (await isAsleep(deps, desktopId)) ? { ...seen, pause: 'suspended' } : seen
}

async function isAsleep({ driver }: LookDeps, desktopId: DesktopId): Promise<boolean> {
  if (driver.frozen(desktopId)) return false
  const asked = driver.guestSleep.isAsleep(desktopId).catch((error: unknown) => {
    if (error instanceof Refusal) return false
    throw error
  })
  return (await before(performance.now() + asleepMs, asked)) === true
}

/** What to report of a desktop that was just looked at. */
export function toObservation(
  { journal }: Pick<LookDeps, 'journal'>,
  desktopId: DesktopId,
  seen: Seen,
  reason?: string | null,
): Observation | undefined {
  const { memory, disk } = seen
  // A copy of the saved memory is no state of the desktop: the desktop sleeps, with it or without it.
  const warm = isWarm(seen)
  const domain = warm ? undefined : seen.domain
  const entry = journal.read(desktopId)
  const fence = entry ?? seen.domain?.mark
  if (!fence && !disk && memory === 'none') return undefined
  return {
    desktopId,
    generation: fence?.generation ?? 0,
    turn: fence?.turn ?? 0,
    operationId: fence?.operationId ?? null,
    domain: domain?.state ?? 'absent',
    memory,
    disk,
    reason: domain?.state === 'running' ? null : (domain?.reason ?? reason ?? entry?.sleptBecause ?? null),
    ...moveOf(entry),
    ...(warm && { warm }),
    ...(domain?.pause && memory !== 'partial' && shouldRun(entry) && { pause: domain.pause }),
  }
}

const shouldRun = (entry: Entry | undefined): boolean => Boolean(entry?.running && !entry.move)

const moveOf = (entry: Entry | undefined): Pick<Observation, 'move'> => (entry?.move ? { move: entry.move } : {})

type Seen = Pick<Situation, 'domain' | 'memory' | 'images' | 'disk'>
const nothing: Seen = { domain: undefined, memory: 'none', images: [], disk: false }

/** Every desktop of this installation that has anything here or is in the journal, without those that were destroyed or have moved away. */
export async function inventory(deps: LookDeps): Promise<Observation[]> {
  const found = await lookAtAll(deps)
  const known = deps.journal.all().filter((entry) => !isGone(entry))
  const ids = new Set([...known.map(({ desktopId }) => desktopId), ...found.keys()])
  return [...ids]
    .map((desktopId) => toObservation(deps, desktopId, found.get(desktopId) ?? nothing))
    .filter((item) => item !== undefined)
    .filter((item) => !isTombstone(deps, item))
}

function isTombstone({ journal }: LookDeps, item: Observation): boolean {
  const isNothing = item.domain === 'absent' && item.memory === 'none' && !item.disk
  return isNothing && isGone(journal.read(item.desktopId))
}

const isGone = (entry: Entry | undefined): boolean => Boolean(entry?.destroyedAt || entry?.departedAt)

/** What the journal says, for when the hypervisor does not answer; each item says so. */
export function journalledInventory(deps: LookDeps): Observation[] {
  const entries = deps.journal.all().filter((entry) => !isGone(entry))
  return entries.map((entry) => fromJournal(deps, entry))
}

function fromJournal({ memory: images }: LookDeps, entry: Entry): Observation {
  const { desktopId, generation, turn, operationId, running, spec } = entry
  const { memory } = judge(images.list(desktopId), undefined, entry)
  const reason = 'the hypervisor does not answer; this is what the journal says'
  const domain = running ? 'running' : 'absent'
  return { desktopId, generation, turn, operationId, domain, memory, disk: spec !== null, reason, ...moveOf(entry) }
}

/** Raises a lost journal to what domains and manifests still say, so that no older command is accepted. */
export async function raiseJournal({ driver, memory, journal }: LookDeps): Promise<void> {
  for (const { mark, state, desktopId } of await driver.domains()) {
    await journal.raise(desktopId, mark, { running: state === 'running' })
  }
  for (const desktopId of await memory.desktops()) {
    const [newest] = memory.list(desktopId)
    if (newest) await journal.raise(desktopId, newest.manifest, {})
  }
}
