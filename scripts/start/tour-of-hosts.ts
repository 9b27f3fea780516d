// The tour's end if there are several hosts: one is emptied while its desktop works, and takes desktops again.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminClient, Desktop, DrainJson } from '@dormouse/client'
import type { Say } from '../testbed/processes.ts'
import { seen, stepper } from './tour.ts'

const pollMs = 100

/** Drains the desktop's host, which cordons it, and ends the cordon. Throws if anything changed on the way. */
export async function tourOfHosts(admin: AdminClient, desktop: Desktop, say: Say): Promise<void> {
  const step = stepper(say)
  const nameOf = async (id: string | null) =>
    (await admin.listHosts()).hosts.find((host) => host.id === id)?.name ?? 'no host'
  const hostOf = async () => (await desktop.refresh()).hostId
  const first = (await hostOf())!
  const before = await step(
    'read the counter',
    () => seen(desktop),
    ({ counter }) => `counter ${counter}`,
  )
  await step(
    'drain its host',
    () => drained(admin, first),
    ({ host_name, desktops }) => `${desktops.filter(hasMoved).length} moved off ${host_name}, while in use`,
  )
  const after = await step(
    'read the counter on its new host',
    () => seen(desktop),
    ({ counter, bootId }) => `counter ${counter}, boot ${bootId.slice(0, 8)}`,
  )
  if (after.counter < before.counter)
    throw new Error(`the counter went back from ${before.counter} to ${after.counter}`)
  if (after.bootId !== before.bootId) throw new Error('the guest rebooted on its way; its memory was lost')
  const now = await hostOf()
  if (now === first) throw new Error('the desktop is still on the host that was emptied')
  await step(
    'end the cordon',
    () => admin.uncordonHost(first),
    ({ name }) => `${name} takes desktops again`,
  )
  say(`  The desktop is on ${await nameOf(now)} now. It kept counting on the way.`)
}

const hasMoved = ({ status }: DrainJson['desktops'][number]) => status === 'moved'

/** Drains the host, and waits until that is over. Throws with the first reason if a desktop cannot leave. */
async function drained(admin: AdminClient, hostId: string): Promise<DrainJson> {
  const { id } = await admin.drainHost(hostId)
  for (;;) {
    const drain = await admin.getDrain(id!)
    if (drain.state === 'drained') return drain
    const reason = drain.desktops.find(({ status }) => status === 'blocked')?.reason?.detail
    if (drain.state !== 'running') throw new Error(`the drain is ${drain.state}${reason ? `: ${reason}` : ''}`)
    await sleep(pollMs)
  }
}
