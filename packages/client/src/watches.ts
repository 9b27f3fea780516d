// Changes of a folder: one typed call for each route, and an iterator that goes on after whatever passes.
import type { ChangeJson, ChangesJson } from '@dormouse/contract'
import { patiently } from './exec-output.ts'
import type { CallOptions, Http } from './http.ts'
import { type NamesOf, refuseUnknown } from './options.ts'
import { path } from './path.ts'

export interface WatchQuery {
  path: string
  /** Also everything below. */
  recursive?: boolean
  /** The cursor of the last answer. Without it a watch begins. */
  cursor?: string
  /** Wait this long for a change; at most 60. */
  waitSecs?: number
}

export interface WatchOptions {
  recursive?: boolean
  /** Go on from here: what `onCursor` got last. */
  cursor?: string
  /** Called with each new cursor, once the changes before it were taken: store it, to go on from there later. */
  onCursor?: (cursor: string) => void
  /** Ends the iteration without an error. */
  signal?: AbortSignal
}

const watchNames: NamesOf<WatchOptions> = { recursive: true, cursor: true, onCursor: true, signal: true }

const waitSecs = 30
const slackMs = 30_000
/** The guest may have to look at thousands of folders first. */
const beginLimitMs = 150_000

/** The calls of /v1/desktops/{id}/watch. */
export function watchCalls(http: Http) {
  const one = (desktopId: string) => path`/v1/desktops/${desktopId}/watch`

  const read = async (desktopId: string, given: WatchQuery, call: CallOptions = {}) => {
    const { waitSecs: wait_secs, ...query } = given
    const limitMs = query.cursor === undefined ? beginLimitMs : (wait_secs ?? 0) * 1_000 + slackMs
    return http.json<ChangesJson>({
      ...call,
      limitMs,
      method: 'GET',
      path: one(desktopId),
      query: { ...query, wait_secs },
    })
  }

  const end = async (desktopId: string, query: WatchQuery & { cursor: string }, call: CallOptions = {}) =>
    http.json<void>({ ...call, method: 'DELETE', path: one(desktopId), query: { ...query } })

  return {
    read,
    end,
    /** Yields changes until the signal is aborted or the caller leaves the loop; after a failure and a sleep it goes on. */
    follow: (desktopId: string, folder: string, options: WatchOptions = {}) =>
      follow(http, { read, end }, desktopId, folder, options),
  }
}

async function* follow(
  http: Http,
  { read, end }: Pick<ReturnType<typeof watchCalls>, 'read' | 'end'>,
  desktopId: string,
  folder: string,
  options: WatchOptions,
): AsyncGenerator<ChangeJson, void, undefined> {
  refuseUnknown('watch', options, watchNames)
  const { recursive, cursor: first, onCursor, signal } = options
  const of = { path: folder, ...(recursive !== undefined && { recursive }) }
  const call = { retries: 0, ...(signal && { signal }) }
  let cursor = first
  let wake: CallOptions['wake']
  try {
    while (!signal?.aborted) {
      const from = cursor
      const next = () =>
        read(desktopId, { ...of, ...(from !== undefined && { cursor: from, waitSecs }) }, { ...call, wake })
      const page = await patiently(http, next, signal)
      // A watch keeps no desktop awake. One that sleeps later is not woken for it.
      wake = 'never'
      yield* page.changes
      if (page.cursor !== from) onCursor?.(page.cursor)
      cursor = page.cursor
    }
  } catch (error) {
    if (!signal?.aborted) throw error
  } finally {
    // Otherwise the watch would end by itself, ten minutes later. A caller that stores cursors may come back, so it stays.
    if (cursor !== undefined && !onCursor)
      await end(desktopId, { ...of, cursor }, { retries: 0, timeoutMs: 5_000, wake: 'never' }).catch(() => undefined)
  }
}
