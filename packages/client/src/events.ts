// Follows the log of events: an iterator that reconnects with its last cursor, so that it yields each event once.
import type { AdminEventJson, EventJson } from '@dormouse/contract'
import { readers } from './bodies.ts'
import { ConnectionError, DormouseError, TimeoutError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import { type NamesOf, refuseUnknown } from './options.ts'
import { mayPass, retryAfterMaxMs } from './retry.ts'

export interface EventsOptions {
  /** Begin behind this cursor: the `id` of an event. Without it, from now on. */
  after?: string
  desktopId?: string
  /** Only events of desktops whose labels matched then, such as `team=qa,run!=42`. */
  select?: string
  /** Only these types. */
  types?: readonly EventJson['type'][]
  /** Ends the iteration without an error. */
  signal?: AbortSignal
  /** Called with each new cursor, even if no event comes: store it, to go on from there later. */
  onCursor?: (cursor: string) => void
}

export interface AdminEventsOptions extends Omit<EventsOptions, 'types'> {
  types?: readonly AdminEventJson['type'][]
  orgId?: string
  hostId?: string
}

const eventsNames: NamesOf<AdminEventsOptions> = {
  ...{
    after: true,
    desktopId: true,
    select: true,
    types: true,
    signal: true,
    onCursor: true,
    orgId: true,
    hostId: true,
  },
}

/** The service sends something every 15 s. A connection that is silent for longer is dead. */
const silentMs = 45_000
const pause = { leastMs: 100, mostMs: 10_000 }

/**
 * Yields events until the signal is aborted or the caller leaves the loop. Reconnects after every failure that may pass. Throws
 * the others: 401 when the credential is withdrawn, and `cursor_gone` if the log no longer reaches back to the cursor, with the
 * oldest one in its problem.
 */
export async function* followEvents<E extends EventJson | AdminEventJson>(
  http: Http,
  path: string,
  options: AdminEventsOptions,
): AsyncGenerator<E, void, undefined> {
  refuseUnknown('events', options, eventsNames)
  let { after } = options
  const left = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, left.signal]) : left.signal
  try {
    for (let failures = 0; !signal.aborted; ) {
      let atLeastMs = 0
      try {
        for await (const { id, data } of connect(http, path, { ...options, after }, signal)) {
          failures = 0
          if (id !== undefined && id !== after) {
            after = id
            options.onCursor?.(id)
          }
          if (data !== undefined) yield JSON.parse(data) as E
        }
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof DormouseError && passes(error))) throw error
        atLeastMs = Math.min(error.retryAfterMs ?? 0, retryAfterMaxMs)
      }
      const mostMs = Math.max(atLeastMs, Math.min(pause.mostMs, pause.leastMs * 2 ** failures++))
      await http.clock.sleep(mostMs * (0.5 + http.clock.random() / 2), signal).catch(() => undefined)
    }
  } finally {
    left.abort()
  }
}

export interface EventPageOptions extends Pick<EventsOptions, 'after' | 'desktopId' | 'select' | 'types'> {
  /** At most this many events; 100 by default. */
  limit?: number
}

/** One page of the log. Without `after` it begins at the oldest event that is kept. */
export const pageOfEvents = <P>(
  http: Http,
  path: string,
  { limit = 100, ...options }: AdminEventsOptions & { limit?: number },
  call: CallOptions,
): Promise<P> => http.json<P>({ ...call, method: 'GET', path: `${withQuery(path, options)}&limit=${limit}` })

function withQuery(path: string, { after, desktopId, orgId, hostId, select, types }: AdminEventsOptions): string {
  const query = new URLSearchParams((types ?? []).map((type): [string, string] => ['type', type]))
  for (const [name, value] of Object.entries({ after, desktop_id: desktopId, org_id: orgId, host_id: hostId, select }))
    if (value !== undefined) query.set(name, value)
  return `${path}?${query}`
}

interface Block {
  id: string | undefined
  /** Undefined for a block that only moves the cursor, or has the reason why the stream ends. */
  data: string | undefined
}

/** Also a fault of the service: a client that follows for days outlasts it. */
const passes = (error: DormouseError): boolean =>
  mayPass(error) || error instanceof TimeoutError || (error.status ?? 0) >= 500

async function* connect(http: Http, path: string, options: AdminEventsOptions, signal: AbortSignal) {
  const silent = new AbortController()
  const call = { method: 'GET', path: withQuery(path, options), headers: { accept: 'text/event-stream' }, retries: 0 }
  const body = await http.run({ ...call, signal: AbortSignal.any([signal, silent.signal]) }, readers.stream)
  let timer = setTimeout(() => silent.abort(), silentMs)
  try {
    let rest = ''
    for await (const text of textOf(body)) {
      clearTimeout(timer)
      timer = setTimeout(() => silent.abort(), silentMs)
      const blocks = (rest + text).split('\n\n')
      rest = blocks.pop()!
      for (const block of blocks) yield blockOf(block)
    }
  } finally {
    clearTimeout(timer)
  }
}

async function* textOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const [reader, decoder] = [body.getReader(), new TextDecoder()]
  try {
    while (true) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new ConnectionError('the stream of events was interrupted', { cause })
      })
      if (done) return
      yield decoder.decode(value, { stream: true })
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** The service's own form: one line each, and `event` only at the end. */
function blockOf(text: string): Block {
  const fields = new Map(text.split('\n').map((line) => line.split(/: (.*)/, 2) as [string, string | undefined]))
  return { id: fields.get('id'), data: fields.has('event') ? undefined : fields.get('data') }
}
