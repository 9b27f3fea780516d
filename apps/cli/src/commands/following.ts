// Shows how far an operation has come while it is awaited: requests it every second, only if there is a terminal to show it on.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, OperationJson } from '@dormouse/client'
import type { Context } from '../context.ts'
import { CliError } from '../failures.ts'

const pollMs = 1_000

/** Runs the work, which calls `onProgress` with each operation that it sees. `show` is undefined if nothing is shown. */
export async function following<T>(
  client: Pick<Client, 'getOperation'>,
  show: ((text: string) => void) | undefined,
  work: (onProgress?: (operation: OperationJson) => void) => Promise<T>,
): Promise<T> {
  if (!show) return work()
  const ended = new AbortController()
  const { signal } = ended
  let id: string | undefined
  const poll = async () => {
    while (!signal.aborted) {
      await sleep(pollMs, undefined, { signal }).catch(() => undefined)
      if (!id || signal.aborted) continue
      // What is shown is not worth a failure.
      const seen = await client.getOperation(id, { signal }).catch(() => undefined)
      if (seen) show(progressText(seen))
    }
  }
  const polling = poll()
  try {
    return await work((operation) => {
      id = operation.id
      show(progressText(operation))
    })
  } finally {
    ended.abort()
    await polling
  }
}

/** In a few words; empty if nothing is known. An older service reports no progress. */
export function progressText({ progress }: Partial<Pick<OperationJson, 'progress'>>): string {
  if (!progress) return ''
  const { phase, done_bytes: done, total_bytes: total, queued_behind: before } = progress
  const words = phase.replaceAll('_', ' ')
  if (before !== null) return `${words}, ${before} before it`
  if (done !== null && total) return `${words}, ${Math.min(100, Math.round((done / total) * 100))} %`
  return words
}

/** Waits with a spinner. When interrupted, the message tells the user that the service goes on. */
export async function waiting<T>(
  context: Context,
  label: string,
  next: string,
  work: (show?: (text: string) => void) => Promise<T>,
): Promise<T> {
  const { terminal } = context
  try {
    return await terminal.during(label, work)
  } catch (error) {
    const { reason } = terminal.signal
    if (error !== reason || !(reason instanceof CliError)) throw error
    throw new CliError('stopped waiting; the request goes on', next, reason.exitCode)
  }
}
