// Every command of the contract with its handler; a missing one does not compile.
import {
  type CommandName,
  type CommandPayload,
  commandLabel,
  commands,
  type Fence,
  type GuestCallName,
  refuse,
} from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { Copies } from '../copies/copies.ts'
import type { ExecActivity } from '../desktops/exec-activity.ts'
import { explainSilence, requireUnpaused, type SilenceDeps } from '../desktops/silent-guests.ts'
import type { Templates } from '../desktops/templates.ts'
import type { HostKey } from '../enrolment/host-key.ts'
import type { GuestExecs } from '../guest/execs.ts'
import type { Appends, Transfers } from '../guest/transfers.ts'
import type { GuestWatches } from '../guest/watches.ts'
import type { ImageFetcher } from '../images/fetcher.ts'
import type { Inputs } from '../input/inputs.ts'
import type { PictureEncoder } from '../input/picture-encoder.ts'
import type { MoveDeps } from '../moves/held.ts'
import type { ScreenClients } from '../streams/screen-clients.ts'
import type { RootUnit } from '../upgrades/root-unit.ts'
import { readClipboard, writeClipboard } from './clipboard.ts'
import { copyHandlers } from './copies.ts'
import { type DesktopDeps, desktopHandlers } from './desktops.ts'
import { guestCall, startsPrograms } from './guest-call.ts'
import { guestStream } from './guest-stream.ts'
import type { CommandHandler, CommandObserver, DialBack } from './handler.ts'
import { imageHandlers } from './images.ts'
import { lookAtScreen } from './look-at-screen.ts'
import { moveHandlers } from './moves.ts'
import { openStream } from './open-stream.ts'
import { interruptInput, performInput } from './perform-input.ts'
import { upgrade } from './upgrade.ts'

/** What all commands need together; each handler's own type names its part. */
export interface CommandDeps extends DesktopDeps, MoveDeps, SilenceDeps {
  turns: DesktopDeps['turns']
  report: SilenceDeps['report']
  driver: DesktopDeps['driver']
  moves: MoveDeps['moves']
  memory: DesktopDeps['memory']
  digests: DesktopDeps['digests']
  guests: DesktopDeps['guests']
  figures: DesktopDeps['figures']
  fetcher: ImageFetcher
  copies: Copies
  failpoints: Failpoints
  transfers: Transfers
  execs: GuestExecs
  watches: GuestWatches
  execActivity: ExecActivity
  appends: Appends
  inputs: Inputs
  pictures: PictureEncoder
  screenClients: ScreenClients
  templates: Templates
  hostKey: Pick<HostKey, 'renew'>
  rootUnit: RootUnit
}

const table: { [N in CommandName]: CommandHandler<N, CommandDeps> } = {
  ...desktopHandlers,
  ...moveHandlers,
  ...imageHandlers,
  ...copyHandlers,
  'key.renew': async ({ hostKey }) => ({ publicKey: await hostKey.renew() }),
  'guest.call': guestCall,
  'guest.stream': guestStream,
  'stream.open': openStream,
  'input.perform': performInput,
  'input.interrupt': interruptInput,
  'screen.look': lookAtScreen,
  'clipboard.read': readClipboard,
  'clipboard.write': writeClipboard,
  'agent.upgrade': upgrade,
}

interface Call {
  signal: AbortSignal
  requestId?: string | undefined
  traceparent?: string | undefined
}

type LinkHandler = (payload: unknown, call: Call) => Promise<unknown>

/** What the handlers of one link's commands need besides the parts. */
interface Around {
  dialBack: DialBack
  observe: CommandObserver
}

/** The handlers of one link's commands. Payloads are parsed here and trusted below. */
export function linkHandlers(deps: CommandDeps, around: Around): Record<CommandName, LinkHandler> {
  const names = Object.keys(table) as CommandName[]
  return Object.fromEntries(names.map((name) => [name, handler(deps, name, around)])) as Record<
    CommandName,
    LinkHandler
  >
}

function handler<N extends CommandName>(deps: CommandDeps, name: N, { dialBack, observe }: Around): LinkHandler {
  return async (payload, { signal, requestId, traceparent }) => {
    const parsed = commands[name].payload.safeParse(payload)
    if (!parsed.success) return refuse('invalid_request', `${name}: ${parsed.error.message}`)
    const desktopId = desktopOf(parsed.data)
    const label = commandLabel(name, parsed.data)
    using _counted = deps.calls.enter(label, desktopId)
    const fence = fenceOf(parsed.data)
    const { operationId } = fence ?? {}
    const call = { name: label, desktopId: desktopId ?? fence?.desktopId, operationId, requestId, traceparent }
    // Awaited here: the call counts until it has ended.
    return await observe(call, async () => {
      // In a guest that is paused nothing is started, so the call may be repeated.
      if (desktopId && startsPrograms.has(label as GuestCallName)) await requireUnpaused(deps, desktopId)
      const result = await table[name](deps, parsed.data as CommandPayload<N>, signal, dialBack).catch((error) =>
        desktopId ? explainSilence(deps, desktopId, error) : Promise.reject(error),
      )
      await deps.failpoints.hit('command.before-reply')
      return result
    })
  }
}

const desktopOf = (payload: object): string | undefined =>
  'desktopId' in payload && typeof payload.desktopId === 'string' ? payload.desktopId : undefined

const fenceOf = (payload: object): Fence | undefined => ('fence' in payload ? (payload.fence as Fence) : undefined)
