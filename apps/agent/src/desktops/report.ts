// How events about desktops reach the control plane.
import type { DesktopId, Fence, OperationId, Report, ReportName } from '@dormouse/contract'

export type SendReport = <N extends ReportName>(name: N, report: Report<N>) => void

type Progress = Report<'operation.progress'>

/** Reports which phase the fence's operation is in, and of how many bytes, if that is known. */
export function reportPhase(
  report: SendReport,
  { desktopId, operationId }: Fence,
  phase: Progress['phase'],
  totalBytes: number | null = null,
): void {
  report('operation.progress', { desktopId, operationId, phase, doneBytes: null, totalBytes })
}

const heldMs = 100

/**
 * Sends reports, but a phase only if its operation still works on the desktop 100 ms later. A fast operation sends one frame
 * only: its result.
 */
export class PhaseFilter {
  readonly #send: SendReport
  readonly #busy: (desktopId: DesktopId) => boolean
  readonly #held = new Map<OperationId, Progress>()

  constructor(send: SendReport, busy: (desktopId: DesktopId) => boolean) {
    this.#send = send
    this.#busy = busy
  }

  send<N extends ReportName>(name: N, report: Report<N>): void {
    const progress = name === 'operation.progress' ? (report as Progress) : undefined
    if (progress?.doneBytes === null) {
      this.#hold(progress)
      return
    }
    if (progress) this.#held.delete(progress.operationId)
    this.#send(name, report)
  }

  #hold(progress: Progress): void {
    const { operationId } = progress
    if (!this.#held.has(operationId)) setTimeout(() => this.#release(operationId), heldMs).unref()
    this.#held.set(operationId, progress)
  }

  #release(operationId: OperationId): void {
    const progress = this.#held.get(operationId)
    this.#held.delete(operationId)
    if (progress && this.#busy(progress.desktopId)) this.#send('operation.progress', progress)
  }
}
