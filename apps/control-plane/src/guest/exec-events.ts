// The output of an exec as server-sent events. `id` is the offset behind the bytes, so a client goes on from there. Knows no HTTP.
import { type ExecStateJson, type ExecStream, Refusal } from '@dormouse/contract'
import type { Asking } from './calls.ts'
import type { Execs } from './execs.ts'

/** Proxies close connections without traffic, often after 30 s. */
const waitMs = 10_000
/** The client connects again, with a credential that is verified again. */
const longestMs = 300_000

/** Ends with `event: end`: `ended` once everything was sent and the command has ended, otherwise a reason to connect again. */
export async function* eventsOf(
  execs: Execs,
  asking: Asking,
  execId: string,
  from: { stream: ExecStream; offset: number },
): AsyncGenerator<string> {
  let { offset } = from
  const until = performance.now() + longestMs
  try {
    while (performance.now() < until) {
      const output = await execs.read(asking, execId, { stream: from.stream, offset, waitMs })
      const { bytes, exec, isEnd } = output
      if (bytes.length > 0) {
        offset = output.offset + bytes.length
        yield `id: ${offset}\ndata: ${JSON.stringify({ offset: output.offset, base64: bytes.toString('base64') })}\n\n`
      }
      if (isEnd) return yield endOf('ended', exec)
      if (bytes.length === 0) yield ': still running\n\n'
    }
    yield endOf('reconnect')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    yield endOf('interrupted')
  }
}

const endOf = (reason: 'ended' | 'reconnect' | 'interrupted', exec?: ExecStateJson): string =>
  `event: end\ndata: ${JSON.stringify({ reason, ...(exec && { exec }) })}\n\n`
