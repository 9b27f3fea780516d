// What an honest host would answer to each command, without doing anything. Pure.
import { commandLabel } from '@dormouse/contract'

const execResult = {
  exit_code: 0,
  signal: null,
  stdout: '',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  duration_ms: 1,
}

const answers: Record<string, unknown> = {
  'desktop.ensureDisk': { made: true },
  'desktop.ensureAwake': { resumedFrom: 'disk', ready: true },
  'desktop.ensureHibernated': { memoryBytes: 1 },
  'desktop.ensureAsleep': { state: 'stopped', memoryLost: false },
  exec: execResult,
  'guest.stream': { size: 5 },
}

/** The result of that command; `items` are what the host says it has. */
export function answerOf(name: string, payload: unknown, items: () => object[]): unknown {
  if (name === 'host.inventory') return { items: items(), digests: [] }
  if (name === 'host.rejoin') return { items: items() }
  if (name === 'desktop.observe') return { ...items()[0], calls: 0, ...(payload as object) }
  return answers[commandLabel(name, payload as object)] ?? answers[name] ?? {}
}
