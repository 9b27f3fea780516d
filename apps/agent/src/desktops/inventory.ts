// What this host has of each desktop, as observed, and the obedience to what the leader thinks of it.
import type { DesktopId, Observation, RejoinOrder } from '@dormouse/contract'
import { removeAll } from './destroy.ts'
import type { Ground } from './ground.ts'
import type { Entry } from './journal.ts'
import { judge, look, lookAtAll, removeSpent, type Situation } from './situation.ts'
import type { Turns } from './turns.ts'

/** One desktop as it truly is now; undefined where there is nothing of it and never was. */
export async function observe(on: Ground, desktopId: DesktopId, why?: string | null): Promise<Observation | undefined> {
  return asSeen(on, desktopId, await look(on, desktopId), why)
}

/** What is said of a desktop that was just looked at. */
export function asSeen(on: Ground, desktopId: DesktopId, seen: Seen, why?: string | null): Observation | undefined {
  const { domain, memory, disk } = seen
  const fence = on.journal.read(desktopId) ?? domain?.mark
  if (!fence && !disk && memory === 'none') return undefined
  return {
    desktopId,
    generation: fence?.generation ?? 0,
    turn: fence?.turn ?? 0,
    operationId: fence?.operationId ?? null,
    domain: domain?.state ?? 'absent',
    memory,
    disk,
    reason: domain?.state === 'running' ? null : (domain?.reason ?? why ?? null),
  }
}

type Seen = Pick<Situation, 'domain' | 'memory' | 'disk'>
const nothing: Seen = { domain: undefined, memory: 'none', disk: false }

/** Every domain, saved memory and disk of this installation, and what the journal knows of; tombstones are not things. */
export async function inventory(on: Ground): Promise<Observation[]> {
  const there = await lookAtAll(on)
  const known = on.journal.all().filter(({ destroyedAt }) => !destroyedAt)
  const ids = new Set([...known.map(({ desktopId }) => desktopId), ...there.keys()])
  return [...ids]
    .map((desktopId) => asSeen(on, desktopId, there.get(desktopId) ?? nothing))
    .filter((item) => item !== undefined)
    .filter((item) => !isTombstone(on, item))
}

function isTombstone(on: Ground, item: Observation): boolean {
  const isNothing = item.domain === 'absent' && item.memory === 'none' && !item.disk
  return isNothing && Boolean(on.journal.read(item.desktopId)?.destroyedAt)
}

/** What is believed where the hypervisor cannot be asked: the journal's last word, and said so. */
export async function believed(on: Ground): Promise<Observation[]> {
  const entries = on.journal.all().filter(({ destroyedAt }) => !destroyedAt)
  return Promise.all(entries.map((entry) => asBelieved(on, entry)))
}

async function asBelieved(on: Ground, entry: Entry): Promise<Observation> {
  const { desktopId, generation, turn, operationId, running, spec } = entry
  const { memory } = judge(await on.memory.list(desktopId), undefined, entry)
  const reason = 'the hypervisor does not answer; this is what the journal says'
  const domain = running ? 'running' : 'absent'
  return { desktopId, generation, turn, operationId, domain, memory, disk: spec !== null, reason }
}

/** Obeys an order only while the journal still says what the leader saw, and nothing else is being done. */
export async function obeyOrder(on: Ground, turns: Turns, { desktopId, seen, order }: RejoinOrder): Promise<void> {
  await turns.between(desktopId, seen, async () => {
    on.log.info({ desktopId, order, ...seen }, 'rejoin order obeyed')
    await obey(on, desktopId, order)
  })
}

async function obey(on: Ground, desktopId: DesktopId, order: RejoinOrder['order']): Promise<void> {
  switch (order) {
    case 'keep':
      return removeSpent(on, desktopId)
    case 'stop':
      return on.driver.kill(desktopId)
    case 'suspend':
      return suspend(on, desktopId)
    case 'remove':
      return remove(on, desktopId)
  }
}

/** Nothing is to run it again: also not when the host's disk has room again. */
async function suspend(on: Ground, desktopId: DesktopId): Promise<void> {
  await on.driver.suspend(desktopId)
  const entry = on.journal.read(desktopId)
  if (entry) await on.journal.note(entry, { running: false }, { makesRoom: true })
}

async function remove(on: Ground, desktopId: DesktopId): Promise<void> {
  await on.driver.abortJob(desktopId)
  await removeAll(on, desktopId)
  const entry = on.journal.read(desktopId)
  const tombstone = { destroyedAt: new Date().toISOString(), running: false, spent: [], spec: null }
  if (entry) await on.journal.note(entry, tombstone, { makesRoom: true })
}

/** A lost journal is raised to what domains and manifests still say, so that no older command is obeyed. */
export async function raiseJournals(on: Ground): Promise<void> {
  for (const { mark, state, desktopId } of await on.driver.domains()) {
    await on.journal.raise(desktopId, mark, { running: state === 'running' })
  }
  for (const desktopId of await on.memory.desktops()) {
    const [newest] = await on.memory.list(desktopId)
    if (newest) await on.journal.raise(desktopId, newest.manifest, {})
  }
}
