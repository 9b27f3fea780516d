// The operation that a request with `ensure` gets if the desktop is already as it is to be.
import type { RequestKind } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import * as operations from '../operations/store.ts'
import type { DesktopRow } from './store.ts'

/**
 * The latest of that kind which has brought the desktop there. If none is kept, because a host's report did that or it was
 * pruned, one that has succeeded at once. The caller has locked the desktop.
 */
export async function alreadyDone(
  tx: Db,
  kind: RequestKind,
  desktop: DesktopRow,
  request: Pick<operations.NewOperation, 'id' | 'requestId' | 'key' | 'fingerprint' | 'deadlineMs'>,
): Promise<operations.OperationRow> {
  const { id: desktopId, orgId, generation, turn, state, hostId, currentGenerationId: generationId } = desktop
  const latest = await operations.latestSuccess(tx, { desktopId, kind, generation })
  if (latest) return latest
  const input = { from: state, hostId }
  const fingerprint = request.key === null ? null : request.fingerprint
  const made = { ...request, fingerprint, desktopId, orgId, kind, generation, generationId, turn, input }
  const result = { desktop_state: state, generation, generation_id: generationId, host_id: hostId }
  return operations.insertSucceeded(tx, made, result)
}
