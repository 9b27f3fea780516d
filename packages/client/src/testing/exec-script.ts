// A scripted service in which every command ends at once, for tests of what runs commands.
import { desktop, desktopId } from './samples.ts'
import type { Script, SeenRequest } from './scripted-server.ts'

export const execId = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b81'

interface ScriptedEnd {
  stdout?: string
  stderr?: string
  exit_code?: number | null
  signal?: number | null
  reason?: string | null
  state?: 'exited' | 'lost'
  /** This many bytes of stdout were dropped before what is printed. */
  dropped?: number
}

/** Returns the requests of a command that ends so; it takes all input. */
export function execScript({ stdout = '', stderr = '', dropped = 0, ...end }: ScriptedEnd = {}): Script {
  const printed = { stdout, stderr }
  return ({ path, query, body, method }) => {
    const stream = query.get('stream') === 'stderr' ? 'stderr' : 'stdout'
    if (path.endsWith('/output'))
      return outputOf(printed[stream], Number(query.get('offset') ?? 0), stream === 'stdout' ? dropped : 0)
    if (path.endsWith('/stdin')) return { body: { next_offset: Number(query.get('offset')) + body.length } }
    if (path.includes('/execs')) return { status: 200, body: { ...ended, ...(method === 'DELETE' ? {} : end) } }
    return { body: desktop({ state: 'awake' }) }
  }
}

const nothing = { start: 0, end: 0, dropped_bytes: 0 }
const ended = {
  ...{ id: execId, desktop_id: desktopId, state: 'exited', exit_code: 0, signal: null, reason: null, timeout_secs: 9 },
  ...{ stdin: { end: 0, open: true }, stdout: nothing, stderr: nothing, ended_at: '2026-01-01T12:00:00.000Z' },
}

function outputOf(text: string, offset: number, dropped: number) {
  const rest = Buffer.from(text).subarray(Math.max(0, offset - dropped))
  const headers = {
    'dormouse-next-offset': String(Math.max(offset, dropped) + rest.length),
    'dormouse-exec-state': 'exited',
    'dormouse-output-end': 'true',
  }
  return { headers, body: new Uint8Array(rest) }
}

/** Body of the request that started the command. */
export const startedWith = (seen: SeenRequest[]): unknown =>
  JSON.parse(String(seen.find(({ method, path }) => method === 'POST' && path.endsWith('/execs'))?.body))

/** The input that it was sent. */
export const inputOf = (seen: SeenRequest[]): Buffer =>
  Buffer.concat(seen.filter(({ path }) => path.endsWith('/stdin')).map(({ body }) => body))

/** Whether nothing was left behind. */
export const wasRemoved = (seen: SeenRequest[]): boolean =>
  seen.some(({ method, path }) => method === 'DELETE' && path.endsWith(`/execs/${execId}`))
