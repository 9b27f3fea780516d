// Moves a first wake to another host if its host is at fault: a disk that has never booted holds nothing. The failed host gets
// a command to remove what it has. Also counts the failed wakes of each host.
import { factsOf, imageFolderName, isOvertaken, Refusal } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Db } from '../../db/pool.ts'
import { retryWhileUnavailable } from '../../db/pool.ts'
import type { ChosenHost, Hosts } from '../../hosts/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import type { Position, StepContext } from '../../operations/definition.ts'
import { read } from '../../operations/store.ts'
import { defer } from '../deferred.ts'
import { sizeOfWake } from '../sizes.ts'
import { bind, lockAny } from '../store.ts'
import { type WakeFindings, type WakeInput, wakeFindings } from './stored.ts'

export interface AnotherHostContext {
  leadership: Leadership
  hosts: Hosts
}

type Wake = StepContext<WakeInput, WakeFindings>

const maxHosts = 3
/** With less time left, another host could not boot the desktop either. */
const minLeftMs = 1_000

/** Whether an earlier host has failed this wake. */
export const wasElsewhere = ({ findings }: Position<WakeInput, WakeFindings>): boolean => findings.tried !== undefined

/** Runs a step on the desktop's host. If the host is at fault in a first wake, runs it on another host. */
export async function onSomeHost<T>(
  deps: AnotherHostContext,
  given: Wake,
  work: (context: Wake) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + given.remainingMs
  for (;;) {
    const context = { ...given, remainingMs: Math.max(1, deadline - performance.now()) }
    try {
      return await work(context)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      await noteFault(deps, context, error)
      const mayLeave = deadline - performance.now() > minLeftMs && (await isWorthLeaving(deps, context, error))
      if (!mayLeave || !(await leave(deps, context, error))) throw error
    }
  }
}

async function noteFault({ hosts }: AnotherHostContext, context: Wake, error: Refusal): Promise<void> {
  const { desktopId, findings } = context.operation
  if (!findings.hostId || factsOf(error.code).fault !== 'host') return
  await hosts.wakeFailed(findings.hostId, desktopId, error.extra.cause ?? error.detail)
}

async function isWorthLeaving({ hosts }: AnotherHostContext, { operation }: Wake, error: Refusal): Promise<boolean> {
  const { input, findings } = operation
  const { hostId, tried = [] } = findings
  if (input.from !== 'created' || input.hostId !== null || input.onHost || !hostId || tried.length + 1 >= maxHosts)
    return false
  if (factsOf(error.code).fault) return true
  // A link that is lost for a moment comes back, so only a silent host counts.
  return error.code === 'host_unreachable' && (await hosts.isSilent(hostId))
}

/** Binds the desktop to another host; false if none can take it. */
async function leave(deps: AnotherHostContext, context: Wake, because: Refusal): Promise<boolean> {
  const { leadership, hosts } = deps
  const { desktopId, findings, input } = context.operation
  const { hostId: from, tried: before = [], image } = findings
  const tried = [...before, from!]
  const madeFrom = image ? imageFolderName(image) : null
  const { imageVersion } = input.spec
  const request = { desktopId, ...sizeOfWake(input), image: imageVersion, registered: image, not: tried }
  const move = (host: ChosenHost) =>
    leadership.transaction(async (tx) => {
      const found = { hostId: host.id, tried, left: because.extra.cause ?? because.detail }
      await together([lockAny(tx, desktopId), host.confirm(tx)])
      await together([host.reserve(tx), bind(tx, desktopId, { hostId: host.id, madeFrom }), context.note(tx, found)])
      await orderRemoval(hosts, tx, context, from!)
      return found
    })
  try {
    Object.assign(findings, await hosts.place(null, request, move))
    return true
  } catch (error) {
    if (error instanceof Refusal && !isOvertaken(error, 'leader')) return false
    // Whether the transaction was committed is unknown; the stored findings decide.
    Object.assign(findings, await storedFindings(deps, context))
    if (findings.hostId === from) throw error
    return true
  }
}

async function orderRemoval(hosts: Hosts, tx: Db, { operation }: Wake, hostId: string): Promise<void> {
  if (await hosts.isRemoved(hostId, tx)) return
  const { desktopId, generation, turn, id: operationId } = operation
  await defer(tx, { desktopId, hostId, command: 'desktop.ensureAbsent', generation, turn, operationId })
}

/** Locking the row waits for the transaction whose outcome is unknown. */
const storedFindings = ({ leadership }: AnotherHostContext, { operation }: Wake) =>
  retryWhileUnavailable(() =>
    leadership.transaction(async (tx) => {
      await lockAny(tx, operation.desktopId)
      return wakeFindings.optional().parse((await read(tx, operation.id))?.findings)
    }),
  )
