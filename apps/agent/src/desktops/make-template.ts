// How a template is made: a guest that belongs to no desktop is booted from the image, sealed, saved and ended. Whatever fails
// or dies on the way leaves no template.
import type { DesktopSpec, ExecCommand } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { GuestAgent, Guests } from '../driver/guest-transport.ts'
import type { TemplateTraits } from '../driver/templates.ts'
import { becomesReady, untilAnswers } from '../guest/ready.ts'
import type { Readiness } from '../images/images.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import { bringIn } from '../scripts/bring-in.ts'
import { quote } from '../scripts/quote.ts'
import { parseSealed, type SealedGuest, sealScript, sealSecs } from '../scripts/seal.ts'
import { limitedFunction } from '../scripts/time-limit.ts'
import { keyOf, type Template, type TemplateFolders } from './template-folders.ts'

export interface MakeDeps {
  driver: Pick<Driver, 'templates' | 'facts'>
  guests: Pick<Guests, 'nobody'>
  folders: TemplateFolders
  failpoints: Failpoints
}

/** What is to be made. */
export interface TemplateWish {
  traits: TemplateTraits
  spec: DesktopSpec
  readiness: Readiness | undefined
  /** No desktop was booted from the image for it: it takes nothing from what others have a use for. */
  isAhead: boolean
}

/** An emulated desktop takes half a minute, on a busy host many times that. */
const bootMs = 900_000

export interface MakeOptions {
  /** The guest's build. */
  buildId: string
  /** It is a template once this has put it in its place. */
  place: (key: string) => Promise<Template>
  /** If it aborts, and the guest is ended, nothing is made, unless the guest is saved already. */
  signal: AbortSignal
}

/**
 * It is a template once `place` has put it in its place. The caller removes what this leaves beside it: its guest, and a folder
 * that is not whole.
 */
export async function makeTemplate(
  deps: MakeDeps,
  wish: TemplateWish,
  { buildId, place, signal }: MakeOptions,
): Promise<Template> {
  const { failpoints, folders } = deps
  const { templates } = deps.driver
  const { traits, spec } = wish
  const key = keyOf(traits)
  const folder = await folders.begin(key, buildId)
  signal.throwIfAborted()
  await templates.boot(buildId, folder, spec, traits)
  await failpoints.hit('template.after-boot')
  const guest = await sealed(deps, buildId, wish, signal)
  await failpoints.hit('template.after-seal')
  await templates.save(buildId, folder, traits)
  await templates.end(buildId)
  await failpoints.hit('template.after-save')
  const { imageVersion, diskGiB } = spec
  await folders.finish(key, { traits, imageVersion, diskGiB, guest })
  await failpoints.hit('template.before-rename')
  const made = await place(key)
  await failpoints.hit('template.after-rename')
  return made
}

async function sealed(
  { driver, guests }: MakeDeps,
  buildId: string,
  { readiness }: TemplateWish,
  signal: AbortSignal,
): Promise<SealedGuest> {
  const deadline = performance.now() + bootMs
  const agent = guests.nobody(buildId)
  const nobody = {
    driver: { domain: (id: string) => driver.templates.domain(id) },
    guests: {
      guest: () => ({ setTime: () => agent.setTime(), exec: (command: ExecCommand) => runLimited(agent, command) }),
    },
  }
  await untilAnswers(nobody, buildId, bootMs, signal)
  await unlessAborted(bringIn(agent), signal)
  const target = { desktopId: buildId, generation: 0 }
  if (readiness && !(await becomesReady(nobody, { ...target, ...readiness, maxTries: Infinity, deadline }, signal)))
    throw new Error('the template’s guest was not ready in time')
  const { exitCode, stdout, stderr } = await unlessAborted(agent.run(sealScript, sealSecs), signal)
  if (exitCode !== 0)
    throw new Error(`the template’s guest could not be sealed: ${stderr.toString().trim().slice(0, 200)}`)
  return parseSealed(stdout.toString())
}

/** Over the guest agent, which ends nothing by itself. */
async function runLimited(agent: GuestAgent, { command, timeoutSecs }: ExecCommand) {
  const words = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
  const script = `${limitedFunction}limited ${timeoutSecs} ${words.map(quote).join(' ')} </dev/null >/dev/null 2>&1`
  const { exitCode } = await agent.run(script, timeoutSecs + 1)
  return { exitCode: exitCode ?? null }
}
