// What must hold after a crash, whatever was killed when. Pure: facts in, sentences of what is wrong out.
import type { DesktopJson, DesktopState, Observation, OperationJson, RequestKind } from '@dormouse/contract'

export interface Asked {
  desktopId: string
  kind: RequestKind
  /** The state that the desktop was in. */
  from: DesktopState
  /** The operation's id, if the request was accepted before the crash. */
  operationId: string | undefined
}

export interface Facts {
  asked: Asked[]
  /** By desktop: what the same request with the same key answers after the crash. */
  replayed: Map<string, OperationJson | undefined>
  /** By desktop: the operation as it is now. */
  operations: Map<string, OperationJson | undefined>
  desktops: Map<string, DesktopJson>
  /** All that the host has. */
  inventory: Observation[]
  /** What the making of templates, and first wakes from them, have left over. */
  leftovers: string[]
  /** By desktop: MiB of memory held of the host. */
  held: Map<string, number>
}

export interface Judgement {
  accepted: number
  known: number
  finishedWell: number
  halfMade: number
  gone: number
  faults: string[]
}

const done: Record<RequestKind, DesktopState> = { wake: 'awake', hibernate: 'hibernated', destroy: 'destroyed' }

/** The counts of the crash test's table, and every fault in words. */
export function judge(facts: Facts): Judgement {
  const accepted = facts.asked.filter(({ operationId }) => operationId !== undefined)
  const known = accepted.filter((asked) => isKnown(asked, facts))
  const well = accepted.filter((asked) => endedWell(asked, facts))
  const halves = facts.asked.flatMap((asked) => halfMade(asked, facts))
  const strays = [...strayItems(facts), ...facts.leftovers.map((name) => `${name} is left over`)]
  const gone = accepted.filter((asked) => !isKnown(asked, facts))
  return {
    accepted: accepted.length,
    known: known.length,
    finishedWell: well.length,
    halfMade: halves.length + strays.length,
    gone: gone.length,
    faults: [
      ...gone.map(({ kind, operationId }) => `the accepted ${kind} ${operationId} is not known any more`),
      ...facts.asked.filter((asked) => !endedWell(asked, facts)).map((asked) => unwell(asked, facts)),
      ...halves,
      ...strays,
    ],
  }
}

/** Found by its id, and by its key as the same. */
function isKnown({ desktopId, operationId }: Asked, { operations, replayed }: Facts): boolean {
  return operations.get(desktopId)?.id === operationId && replayed.get(desktopId)?.id === operationId
}

function endedWell({ desktopId, kind }: Asked, { operations, desktops }: Facts): boolean {
  return operations.get(desktopId)?.state === 'succeeded' && desktops.get(desktopId)?.state === done[kind]
}

function unwell({ desktopId, kind, from }: Asked, { operations, desktops }: Facts): string {
  const operation = operations.get(desktopId)
  const state = desktops.get(desktopId)?.state
  return `the ${kind} from ${from} is ${operation?.state ?? 'unknown'} (${operation?.error ?? 'no error'}), its desktop ${state}`
}

/** The differences between the database and the host about a desktop. */
function halfMade({ desktopId }: Asked, { desktops, inventory, held }: Facts): string[] {
  const desktop = desktops.get(desktopId)
  if (!desktop) return [`desktop ${desktopId} is not known any more`]
  const items = inventory.filter((item) => item.desktopId === desktopId)
  if (items.length > 1) return [`desktop ${desktopId} is there ${items.length} times`]
  const seen = summary(items[0])
  const truth = truths[desktop.state]
  const wrong = truth === seen ? [] : [`desktop ${desktopId} is ${desktop.state}; its host has: ${seen}`]
  const memory = held.get(desktopId) ?? 0
  if (memory > 0 !== (desktop.state === 'awake'))
    wrong.push(`desktop ${desktopId} is ${desktop.state} and holds ${memory} MiB`)
  if (seen === 'running' && items[0]?.generation !== desktop.generation) {
    wrong.push(`desktop ${desktopId} runs in generation ${items[0]?.generation}, not ${desktop.generation}`)
  }
  return wrong
}

const truths: Partial<Record<DesktopState, string>> = {
  created: 'nothing',
  awake: 'running',
  hibernated: 'saved',
  stopped: 'disk',
  destroyed: 'nothing',
}

export function summary(item: Observation | undefined): string {
  if (!item) return 'nothing'
  const { domain, memory, disk } = item
  if (domain === 'running' && disk && memory === 'none') return 'running'
  if (domain === 'absent' && disk && memory === 'complete') return 'saved'
  if (domain === 'absent' && disk && memory === 'none') return 'disk'
  if (domain === 'absent' && !disk && memory === 'none') return 'nothing'
  return `domain ${domain}, memory ${memory}, disk ${disk}`
}

/** What the host has of desktops that nobody asked for. */
function strayItems({ inventory, asked }: Facts): string[] {
  const ours = new Set(asked.map(({ desktopId }) => desktopId))
  return inventory
    .filter(({ desktopId }) => !ours.has(desktopId))
    .map((item) => `a stray desktop ${item.desktopId} is on the host: ${summary(item)}`)
}
