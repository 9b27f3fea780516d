// Before the ground goes away: everything awake is hibernated, before the eyes of whoever waits.
import type { Say } from '../ground/processes.ts'
import type { Operators } from './api.ts'

/** How many at a time: a save is bound by the disk. */
const atOnce = 4

/** Hibernates what is awake, with a line for each. One that fails is named, with what it loses, and the others go on. */
export async function sleepAll(operators: Operators, say: Say, signal: AbortSignal): Promise<void> {
  const awake = await operators.awake()
  if (awake.length === 0) return
  say(
    `Hibernating ${awake.length} desktop${awake.length === 1 ? '' : 's'} (Ctrl-C again skips this: what is not asleep by then loses its memory)`,
  )
  const left = awake.map((desktop, index) => ({ desktop, index: index + 1 }))
  const worker = async () => {
    for (let next = left.shift(); next && !signal.aborted; next = left.shift()) {
      const began = performance.now()
      const { id } = next.desktop
      const outcome = await operators.hibernate(id, signal).then(
        ({ state, error }) => (state === 'succeeded' ? 'hibernated' : `not hibernated: ${error ?? state}`),
        (error: Error) => `not hibernated: ${error.message}`,
      )
      say(`  ${next.index}/${awake.length} ${id} ${outcome} (${((performance.now() - began) / 1_000).toFixed(1)} s)`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}
