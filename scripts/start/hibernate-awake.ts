// Before the parts stop: hibernates every awake desktop, prints a line for each, and ends warm copies.
import type { Say } from '../testbed/processes.ts'
import { type Operators, operators } from './api.ts'
import type { Service } from './bring-up.ts'
import { leaderOf } from './lead.ts'
import type { Run } from './run.ts'

/** How many at a time: a save is bound by the disk. */
const atOnce = 4

/** Hibernates what is awake, unless `skip` aborts. A failure is printed and stops nothing. */
export async function hibernateAwake({ say }: Run, service: Service, skip: AbortSignal): Promise<void> {
  const urls = service.replicas.map(({ url }) => url)
  say('')
  const baseUrl = (await leaderOf(urls)) ?? urls[0]!
  const admin = operators(baseUrl, service.operatorKey)
  await hibernateEach(admin, say, skip).catch((error: Error) =>
    say(`Not every desktop was hibernated: ${error.message}`),
  )
  // Their memory is saved: no process has to stay. The system's libvirt would leave them running.
  if (!skip.aborted)
    await admin.dropWarmCopies().catch((error: Error) => say(`Not every warm copy was ended: ${error.message}`))
}

async function hibernateEach(operators: Operators, say: Say, signal: AbortSignal): Promise<void> {
  const awake = await operators.awake()
  if (awake.length === 0) return
  say(
    awake.length === 1
      ? 'Hibernating 1 desktop; press Ctrl-C again to skip this and lose its memory'
      : `Hibernating ${awake.length} desktops; press Ctrl-C again to skip this and lose their memory`,
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
