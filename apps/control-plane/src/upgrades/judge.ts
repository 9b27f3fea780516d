// Judges an upgrade by what is known of its hosts: which begin now, and whether it has ended. Pure.
import type { UpgradeState } from '@dormouse/contract'
import type { UpgradedHost, UpgradeRow } from './store.ts'

export interface Judged {
  /** What has changed. */
  hosts: UpgradedHost[]
  outcome: UpgradeState | undefined
}

/** A batch begins when the one before it is upgraded. After a failure or a cancellation, no host begins. */
export function judge({ state, batch }: Pick<UpgradeRow, 'state' | 'batch'>, hosts: UpgradedHost[]): Judged {
  const having = (status: UpgradedHost['status']) => hosts.filter((host) => host.status === status)
  const [working, waiting, failed] = [having('working'), having('waiting'), having('failed')]
  const why = failed[0] ? `the upgrade of ${failed[0].hostName} failed` : 'the upgrade was cancelled'
  const ends = failed.length > 0 || state === 'cancelling'
  const changed = ends
    ? waiting.map((host) => ({ ...host, status: 'skipped' as const, reason: why }))
    : working.length > 0
      ? []
      : waiting.slice(0, batch).map((host) => ({ ...host, status: 'working' as const, reason: null }))
  const isOver = working.length === 0 && (ends || waiting.length === 0)
  const outcome = failed.length > 0 ? 'failed' : state === 'cancelling' ? 'cancelled' : 'upgraded'
  return { hosts: changed, outcome: isOver ? outcome : undefined }
}
