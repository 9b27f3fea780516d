// The list of agents' reports, each with its handler.
import type { Report, ReportName } from '@dormouse/contract'
import type { Engine } from './operations/engine.ts'
import type { Recovery } from './recovery/service.ts'

type Handlers = { [N in ReportName]: (hostId: string, report: Report<N>) => void }

export const reportHandlers = ({ engine, recovery }: { engine: Engine; recovery: Recovery }): Handlers => ({
  'desktop.observed': (hostId, observation) => recovery.observed(hostId, observation),
  'operation.progress': (hostId, report) => engine.progress(hostId, report.operationId, report),
})
