// Begins moves of desktops between hosts, for operators and drains. Does not know HTTP, and does not choose which desktop
// moves.
import { type MoveMode, newId, type OperationRequester, refuse, refuseNotFound } from '@dormouse/contract'
import type { Db, Note } from '../db/pool.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import { lineOf } from '../operations/followers.ts'
import type { OperationRow } from '../operations/store.ts'
import * as operations from '../operations/store.ts'
import { type MoveInput, moveInput } from './operations/stored.ts'
import { takeTurn } from './state-changes.ts'
import { movable } from './states.ts'
import * as store from './store.ts'

export interface MovesOptions {
  leadership: Leadership
  hosts: Pick<Hosts, 'idOf'>
  engine: Engine
  deadlineMs: number
}

export interface MoveRequest {
  /** The host's id or name; null for the best host. */
  to: string | null
  /** `live` by default. Has no effect on a desktop that is asleep. */
  mode?: MoveMode
  requestedBy: Exclude<OperationRequester, 'caller'>
  requestId: string
  /** Writes the operator's audit entry. */
  note?: Note
}

export class Moves {
  readonly #options: MovesOptions

  constructor(options: MovesOptions) {
    this.#options = options
  }

  /**
   * Begins to move a desktop that is awake or asleep to another host; returns the operation in progress if it is the same move.
   * Refuses with `wrong_state` in other states, and with `conflict` while another operation is in progress or if the desktop is
   * already on that host.
   */
  async begin(desktopId: string, request: MoveRequest): Promise<OperationRow> {
    const { leadership, engine, hosts } = this.#options
    const { note, mode = 'live' } = request
    const { operation, term } = await leadership.transaction(async (tx, term) => {
      const to = request.to && (await hosts.idOf(tx, request.to))
      const row = (await store.lockAny(tx, desktopId)) ?? refuseNotFound()
      const { ahead } = await lineOf(tx, desktopId)
      if (ahead?.kind === 'move' && isSame(ahead, { to, mode })) {
        await note?.(tx, desktopId, null)
        return { operation: ahead }
      }
      const hostId = await requireMovable(tx, row, to)
      await takeTurn(tx, desktopId)
      const operation = await operations.insert(tx, this.#operation(row, hostId, { ...request, to, mode }))
      await note?.(tx, desktopId, { operation_id: operation.id })
      return { operation, term }
    })
    if (term) engine.accept(operation, term)
    return operation
  }

  #operation(
    row: store.DesktopRow,
    hostId: string,
    { to, mode, requestedBy, requestId }: MoveRequest & { mode: MoveMode },
  ): operations.NewOperation<MoveInput> {
    return {
      id: newId(),
      desktopId: row.id,
      orgId: row.orgId,
      kind: 'move',
      requestedBy,
      generation: row.generation,
      generationId: row.currentGenerationId,
      turn: row.turn + 1,
      input: { from: row.state, hostId, spec: store.specOf(row), tier: row.tier, to, mode, mayRelay: true },
      requestId,
      key: null,
      fingerprint: null,
      deadlineMs: this.#options.deadlineMs,
    }
  }
}

function isSame({ input }: OperationRow, { to, mode }: { to: string | null; mode: MoveMode }): boolean {
  const earlier = moveInput.parse(input)
  return earlier.to === to && earlier.mode === mode
}

/** Returns the desktop's host. */
async function requireMovable(tx: Db, row: store.DesktopRow, to: string | null): Promise<string> {
  if (await operations.hasLive(tx, row.id))
    refuse('conflict', 'the desktop has an operation in progress; wait until it settles')
  if (!movable.includes(row.state) || row.hostId === null)
    refuse('wrong_state', `the desktop is ${row.state}; a move is possible when it is ${movable.join(', ')}`)
  if (row.hostId === to) refuse('conflict', 'the desktop is on that host already; name another one')
  return row.hostId
}
