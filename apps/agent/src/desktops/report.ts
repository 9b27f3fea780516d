// How events about desktops reach the control plane.
import type { Fence, Report, ReportName } from '@dormouse/contract'

export type SendReport = <N extends ReportName>(name: N, report: Report<N>) => void

type Phase = Report<'operation.progress'>['phase']

/** Reports which phase the fence's operation is in, without a number of bytes. */
export function reportPhase(report: SendReport, { desktopId, operationId }: Fence, phase: Phase): void {
  report('operation.progress', { desktopId, operationId, phase, doneBytes: null, totalBytes: null })
}
