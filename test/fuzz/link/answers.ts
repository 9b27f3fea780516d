// What an honest host would answer to each command, without doing anything. Pure.

const execResult = {
  exitCode: 0,
  signal: null,
  stdout: '',
  stderr: '',
  stdoutTruncated: false,
  stderrTruncated: false,
  durationMs: 1,
}

const answers: Record<string, unknown> = {
  'desktop.ensureDisk': { made: true },
  'desktop.ensureAwake': { resumedFrom: 'disk', ready: true },
  'desktop.ensureHibernated': { memoryBytes: 1 },
  'desktop.ensureAsleep': { state: 'stopped', memoryLost: false },
  'guest.exec': execResult,
  'guest.writeFile': { size: 5 },
  'guest.readFile': { size: 5 },
}

/** The result of that command; `items` are what the host says it has. */
export function answerOf(name: string, payload: unknown, items: () => object[]): unknown {
  if (name === 'host.inventory') return { items: items(), digests: [] }
  if (name === 'host.rejoin') return { items: items() }
  if (name === 'desktop.observe') return { ...items()[0], calls: 0, ...(payload as object) }
  return answers[name] ?? {}
}
