// Begins restores of copies. Does not know HTTP.
import { type DesktopId, newId, refuse, refuseNotFound } from '@dormouse/contract'
import { beginRestore } from '../desktops/generations.ts'
import { type RestoreInput, restoreInput } from '../desktops/operations/stored.ts'
import { restorable } from '../desktops/states.ts'
import * as desktops from '../desktops/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import { lineOf } from '../operations/followers.ts'
import * as operations from '../operations/store.ts'
import type { Reach } from '../principals/scope.ts'
import * as store from './store.ts'

export interface RestoresOptions {
  leadership: Leadership
  engine: Pick<Engine, 'accept'>
  deadlineMs: number
}

export interface RestoreWish {
  caller: Reach
  desktopId: DesktopId
  copyId: string
  requestId: string
}

export class Restores {
  readonly #options: RestoresOptions

  constructor(options: RestoresOptions) {
    this.#options = options
  }

  /** A repeat while the same copy is restored returns the operation in progress. */
  async begin({ caller, desktopId, copyId, requestId }: RestoreWish): Promise<operations.OperationRow> {
    const { leadership, engine, deadlineMs } = this.#options
    const { operation, term } = await leadership.transaction(async (tx, term) => {
      const row = (await desktops.lock(tx, caller, desktopId)) ?? refuseNotFound()
      const copy = (await store.find(tx, desktopId, copyId)) ?? refuseNotFound()
      const { current } = await lineOf(tx, desktopId)
      if (current?.kind === 'restore' && restoreInput.parse(current.input).copyId === copyId)
        return { operation: current }
      if (!restorable.includes(row.state))
        refuse(
          'wrong_state',
          `the desktop is ${row.state}; a restore is possible when it is ${restorable.join(', ')}`,
          {
            state: row.state,
          },
        )
      if (current) refuse('conflict', 'the desktop has an operation in progress; wait until it settles')
      const generationId = newId()
      await beginRestore(tx, desktopId, generationId)
      const input: RestoreInput = {
        from: row.state,
        // One that failed with its host has no host that could take it back.
        hostId: row.state === 'failed' ? null : row.hostId,
        spec: copy.spec,
        copyId,
        takenAt: copy.takenAt.toISOString(),
        vault: copy.vault,
        snapshot: copy.snapshot,
        imageDigest: copy.traits.imageDigest,
        madeFrom: copy.madeFrom,
        handoff: copy.handoff,
        // Each wake begins a generation: in a later one, the copy's memory was used.
        memory: copy.kind === 'memory' && copy.generation === row.generation,
      }
      const operation = await operations.insert(tx, {
        id: newId(),
        desktopId,
        orgId: row.orgId,
        kind: 'restore',
        requestedBy: 'caller',
        generation: row.generation + 1,
        generationId,
        turn: row.turn + 1,
        input,
        requestId,
        key: null,
        fingerprint: null,
        deadlineMs,
      })
      return { operation, term }
    })
    if (term) engine.accept(operation, term)
    return operation
  }
}
