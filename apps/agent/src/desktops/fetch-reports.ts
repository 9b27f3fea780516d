// How the fetch of a desktop's image reaches the control plane: now and then, since it may take minutes.
import type { Fence } from '@dormouse/contract'
import type { SendReport } from './report.ts'

const everyMs = 500

export class FetchReports {
  readonly #report: SendReport
  readonly #operation: Pick<Fence, 'desktopId' | 'operationId'>
  #sentAt = 0

  constructor(report: SendReport, operation: Pick<Fence, 'desktopId' | 'operationId'>) {
    this.#report = report
    this.#operation = operation
  }

  /** Only bytes that came are reported: each report extends the operation's deadline. */
  readonly progress = (doneBytes: number, totalBytes: number): void => {
    const now = performance.now()
    if (this.#sentAt > 0 && now - this.#sentAt < everyMs) return
    this.#sentAt = now
    const { desktopId, operationId } = this.#operation
    this.#report('operation.progress', { desktopId, operationId, phase: 'fetching', doneBytes, totalBytes })
  }
}
