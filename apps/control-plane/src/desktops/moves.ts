// Begins moves of desktops between hosts, for operators and drains. Knows neither HTTP nor which desktop should move.
import { newId, type OperationRequester, refuse, refuseNotFound } from '@dormouse/contract'
import type { Leadership } from '../leadership/leadership.ts'
import { requireKnownToAll } from '../leadership/store.ts'
import type { Engine } from '../operations/engine.ts'
import type { OperationRow } from '../operations/store.ts'
import * as operations from '../operations/store.ts'
import { takeTurn } from './state-changes.ts'
import { movable } from './states.ts'
import * as store from './store.ts'

export interface MovesOptions {
  leadership: Leadership
  engine: Engine
  deadlineMs: number
}

export interface MoveRequest {
  /** Null for the best host. */
  to: string | null
  requestedBy: Exclude<OperationRequester, 'caller'>
  requestId: string
}

export class Moves {
  readonly #options: MovesOptions

  constructor(options: MovesOptions) {
    this.#options = options
  }

  /**
   * Begins to move a desktop that is awake or asleep to another host. Refuses with `wrong_state` in other states, and with
   * `conflict` while another operation is in progress.
   */
  async begin(desktopId: string, request: MoveRequest): Promise<OperationRow> {
    const { leadership, engine } = this.#options
    const accepted = await leadership.transaction(async (tx, term) => {
      const row = (await store.lockAny(tx, desktopId)) ?? refuseNotFound()
      if (await operations.hasLive(tx, desktopId)) refuse('conflict', 'the desktop has an operation in progress')
      if (!movable.includes(row.state) || row.hostId === null)
        refuse('wrong_state', `the desktop is ${row.state}; a move is possible when it is ${movable.join(', ')}`)
      await requireKnownToAll(tx, 'moves')
      await takeTurn(tx, desktopId)
      return { term, operation: await operations.insert(tx, this.#operation(row, request)) }
    })
    engine.accept(accepted.operation, accepted.term)
    return accepted.operation
  }

  #operation(row: store.DesktopRow, { to, requestedBy, requestId }: MoveRequest): operations.NewOperation {
    return {
      id: newId(),
      desktopId: row.id,
      orgId: row.orgId,
      kind: 'move',
      requestedBy,
      generation: row.generation,
      generationId: row.currentGenerationId,
      turn: row.turn + 1,
      input: { from: row.state, discardMemory: false, hostId: row.hostId, spec: store.specOf(row), to },
      requestId,
      key: null,
      fingerprint: null,
      deadlineMs: this.#options.deadlineMs,
    }
  }
}
