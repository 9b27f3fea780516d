// The changes of a folder as server-sent events. `id` is the cursor behind each batch, so a client goes on from there. Knows no
// HTTP.
import { Refusal } from '@dormouse/contract'
import type { Asking } from './calls.ts'
import type { Watched, Watches } from './watches.ts'

/** Proxies close connections without traffic, often after 30 s. */
const waitMs = 10_000
/** The client connects again, with a credential that is verified again. */
const longestMs = 300_000

/** Ends with `event: end` and a reason: `reconnect`, or the code of what prevents it, such as `not_awake`. */
export async function* watchEvents(
  watches: Watches,
  asking: Asking,
  watched: Watched,
  from: string,
): AsyncGenerator<string> {
  const until = performance.now() + longestMs
  let cursor = from
  yield `id: ${cursor}\n\n`
  try {
    while (performance.now() < until) {
      const page = await watches.read(asking, watched, cursor, waitMs)
      cursor = page.cursor
      // The cursor moves with the last of a batch: after a cut the whole batch comes again.
      const blocks = page.changes.map((change) => `data: ${JSON.stringify(change)}\n`)
      yield blocks.length > 0 ? `${blocks.join('\n')}id: ${cursor}\n\n` : ': still watching\n\n'
    }
    yield endOf('reconnect')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    // A sleep shows first as a guest that no longer answers.
    const code = (why: unknown) => (why instanceof Refusal ? why.code : error.code)
    yield endOf(await watches.check(asking, watched, cursor).then(() => error.code, code))
  }
}

const endOf = (reason: string): string => `event: end\ndata: ${JSON.stringify({ reason })}\n\n`
