// Decides how a new desktop begins with a copy of a template: memory and disk of a saved boot, and then an identity of its own. Until
// it has that, nobody reaches it, and it counts as never woken: whatever fails or dies, its disk is emptied and it begins again.
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopSpec, Refusal, refuse } from '@dormouse/contract'
import { type Failpoints, type Log, together } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { WakeNews } from '../driver/guest-access.ts'
import type { Guests } from '../driver/guest-transport.ts'
import { identityOf } from './identity.ts'
import { reportPhase, type SendReport } from './report.ts'
import { type LookDeps, markOf, spendAll } from './situation.ts'
import type { Template } from './template-folders.ts'
import type { Templates } from './templates.ts'
import type { Turn } from './turns.ts'

export interface UnidentifiedDeps extends LookDeps {
  driver: Driver
  guests: Guests
}

export interface FirstWakeDeps extends UnidentifiedDeps {
  installationId: string
  templates: Pick<Templates, 'opened' | 'find' | 'using' | 'failed' | 'worked'>
  report: SendReport
  failpoints: Failpoints
  log: Log
}

/** For the program in the guest to answer: several copies may begin at once on a host that emulates them. */
const identityMs = 20_000
const againMs = 20

/** Whether the desktop runs, from a template, when this returns. Otherwise its disk is as it was: empty, to be booted. */
export async function firstWake(deps: FirstWakeDeps, turn: Turn, spec: DesktopSpec): Promise<boolean> {
  const { desktopId } = turn.fence
  if (turn.entry().disk !== 'fresh') return false
  const template = await chosen(deps, turn, spec)
  if (!template) return false
  try {
    const isAwake = await begin(deps, turn, spec, template)
    if (isAwake) deps.templates.worked(template)
    return isAwake
  } catch (err) {
    turn.signal.throwIfAborted()
    deps.log.warn({ err, desktopId }, 'a desktop could not begin with a template; it boots from its image')
    await emptyUnidentified(deps, turn)
    await deps.templates.failed(template)
    return false
  }
}

/** If the traits cannot be read, no template is used. */
async function chosen({ driver, templates, log }: FirstWakeDeps, turn: Turn, spec: DesktopSpec) {
  try {
    const [traits] = await together([driver.templates.traits(turn.fence.desktopId, spec), templates.opened()])
    return traits && templates.find(traits, spec)
  } catch (err) {
    log.warn({ err }, 'no template was looked for; the desktop boots from its image')
    return undefined
  }
}

async function begin(deps: FirstWakeDeps, turn: Turn, spec: DesktopSpec, template: Template): Promise<boolean> {
  const { driver, failpoints, templates, memory, guests } = deps
  const { desktopId } = turn.fence
  const mark = markOf(deps, turn.fence)
  reportPhase(deps.report, turn.fence, 'restoring')
  await turn.synced()
  await turn.note({ spec, identity: 'template' })
  await failpoints.hit('first-wake.before-copy')
  const path = memory.copyPath(desktopId)
  // In one piece: what is copied and what is started are parts of the same template.
  const begun = await templates.using(template, async () => {
    const [keys] = await together([guests.introduce(desktopId), driver.templates.copy(template, mark, path)])
    await failpoints.hit('first-wake.after-copy')
    turn.signal.throwIfAborted()
    await driver.templates.start(template, mark, path)
    await driver.setShares(desktopId, spec.shares)
    return { keys }
  })
  if (!begun) refuse('hypervisor_failed', 'the template was removed meanwhile')
  await failpoints.hit('first-wake.before-resume')
  turn.signal.throwIfAborted()
  await driver.resume(desktopId)
  await failpoints.hit('first-wake.after-resume')
  await identify(deps, turn, identityOf(desktopId, template.guest, begun.keys))
  await failpoints.hit('first-wake.after-identity')
  turn.signal.throwIfAborted()
  const done = { wokeFrom: 'image', wokeBy: 'template', identity: 'own', disk: 'used', furnished: false } as const
  await spendAll(deps, turn, { ...done, running: true, ready: true })
  await failpoints.hit('first-wake.after-done')
  return true
}

/** It may be sent several times: the result is the same. */
async function identify({ guests }: FirstWakeDeps, turn: Turn, news: WakeNews): Promise<void> {
  const deadline = performance.now() + identityMs
  for (;;) {
    turn.signal.throwIfAborted()
    try {
      return await guests.tell(turn.fence.desktopId, news)
    } catch (error) {
      const isLate = performance.now() >= deadline
      if (isLate || !(error instanceof Refusal) || error.code !== 'guest_unavailable') throw error
      await sleep(againMs)
    }
  }
}

/**
 * A desktop that began with a template and has no identity yet has never been anybody's: its process, its memory and what is on its
 * disk are removed. To be called before a desktop is looked at.
 */
export async function emptyUnidentified({ driver, memory, guests }: UnidentifiedDeps, turn: Turn): Promise<void> {
  const { identity, spec } = turn.entry()
  const { desktopId } = turn.fence
  if (identity === 'own' || !spec) return
  await driver.kill(desktopId)
  await driver.templates.emptyDisk(desktopId, spec)
  await memory.removeCopy(desktopId)
  await guests.forget(desktopId)
  await turn.note({ identity: 'own', running: false })
}
