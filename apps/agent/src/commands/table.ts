// Every command of the contract with its handler; a missing one does not compile.
import { type CommandName, type CommandPayload, commands, type Fence, refuse } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { AsleepDeps } from '../desktops/asleep.ts'
import type { DestroyDeps } from '../desktops/destroy.ts'
import type { ExecActivity } from '../desktops/exec-activity.ts'
import type { Furnishing } from '../desktops/furnishing.ts'
import type { OrderDeps } from '../desktops/orders.ts'
import { explainSilence, requireUnpaused, type SilenceDeps } from '../desktops/silent-guests.ts'
import type { Templates } from '../desktops/templates.ts'
import type { WakeDeps } from '../desktops/wake.ts'
import type { WarmCopies } from '../desktops/warm-copies.ts'
import type { Appends } from '../guest/appends.ts'
import type { GuestExecs } from '../guest/execs.ts'
import type { Transfers } from '../guest/transfers.ts'
import type { GuestWatches } from '../guest/watches.ts'
import type { ImageFetcher } from '../images/fetcher.ts'
import type { Inputs } from '../input/inputs.ts'
import type { PictureEncoder } from '../input/picture-encoder.ts'
import type { MoveDeps } from '../moves/held.ts'
import type { ScreenClients } from '../streams/screen-clients.ts'
import type { CallsInFlight } from './calls-in-flight.ts'
import { readClipboard, writeClipboard } from './clipboard.ts'
import { dropWarmCopies } from './drop-warm-copies.ts'
import { ensureAbsent } from './ensure-absent.ts'
import { ensureAsleep } from './ensure-asleep.ts'
import { ensureAwake } from './ensure-awake.ts'
import { ensureDestroyed } from './ensure-destroyed.ts'
import { ensureDisk } from './ensure-disk.ts'
import { ensureHibernated } from './ensure-hibernated.ts'
import { ensureImage } from './ensure-image.ts'
import { changeEntry, listEntries } from './entries.ts'
import { exec } from './exec.ts'
import { execHandlers } from './execs.ts'
import { fetchImage } from './fetch-image.ts'
import type { CommandHandler, CommandObserver, DialBack } from './handler.ts'
import { inspectImage } from './inspect-image.ts'
import { inventory } from './inventory.ts'
import { lookAtScreen } from './look-at-screen.ts'
import { moveCheck } from './move-check.ts'
import { moveAbandon, moveArrive, movePrepare, moveSettle } from './move-in.ts'
import { moveBegin, moveKeep, moveRelease, moveSend } from './move-out.ts'
import { moveTraits } from './move-traits.ts'
import { observe } from './observe.ts'
import { openStream } from './open-stream.ts'
import { interruptInput, performInput } from './perform-input.ts'
import { readArchive, readFile, readRange } from './read-file.ts'
import { rejoin } from './rejoin.ts'
import { takePicture } from './take-picture.ts'
import { tidy } from './tidy.ts'
import { appendUpload, uploadStep } from './upload.ts'
import { watchHandlers } from './watches.ts'
import { writeArchive, writeFile } from './write-file.ts'

/** What all commands need together; each handler's own type names its part. */
export interface CommandDeps extends WakeDeps, AsleepDeps, DestroyDeps, OrderDeps, MoveDeps, SilenceDeps {
  turns: OrderDeps['turns']
  report: SilenceDeps['report']
  driver: WakeDeps['driver']
  moves: MoveDeps['moves']
  memory: WakeDeps['memory']
  digests: WakeDeps['digests']
  guests: AsleepDeps['guests']
  fetcher: ImageFetcher
  failpoints: Failpoints
  calls: CallsInFlight
  transfers: Transfers
  execs: GuestExecs
  watches: GuestWatches
  execActivity: ExecActivity
  appends: Appends
  inputs: Inputs
  pictures: PictureEncoder
  screenClients: ScreenClients
  warm: WarmCopies
  templates: Templates
  furnishing: Furnishing
}

const table: { [N in CommandName]: CommandHandler<N, CommandDeps> } = {
  'desktop.ensureDisk': ensureDisk,
  'desktop.ensureAwake': ensureAwake,
  'desktop.ensureHibernated': ensureHibernated,
  'desktop.ensureAsleep': ensureAsleep,
  'desktop.ensureDestroyed': ensureDestroyed,
  'desktop.ensureAbsent': ensureAbsent,
  'desktop.tidy': tidy,
  'desktop.observe': observe,
  'host.inventory': inventory,
  'host.rejoin': rejoin,
  'move.traits': moveTraits,
  'move.check': moveCheck,
  'move.begin': moveBegin,
  'move.prepare': movePrepare,
  'move.send': moveSend,
  'move.arrive': moveArrive,
  'move.settle': moveSettle,
  'move.release': moveRelease,
  'move.abandon': moveAbandon,
  'move.keep': moveKeep,
  'guest.exec': exec,
  'guest.writeFile': writeFile,
  'guest.readFile': readFile,
  'guest.readRange': readRange,
  'guest.uploadStep': uploadStep,
  'guest.appendUpload': appendUpload,
  'guest.readArchive': readArchive,
  'guest.writeArchive': writeArchive,
  'guest.listEntries': listEntries,
  'guest.changeEntry': changeEntry,
  'host.dropWarmCopies': dropWarmCopies,
  'image.inspect': inspectImage,
  'image.fetch': fetchImage,
  'image.ensure': ensureImage,
  'stream.open': openStream,
  'stream.picture': takePicture,
  ...execHandlers,
  ...watchHandlers,
  'input.perform': performInput,
  'input.interrupt': interruptInput,
  'screen.look': lookAtScreen,
  'clipboard.read': readClipboard,
  'clipboard.write': writeClipboard,
}

/** Where its guest is paused, none of them begins: so it may be repeated. */
const startsPrograms: ReadonlySet<CommandName> = new Set<CommandName>(['guest.exec', 'exec.start'])

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
    using _counted = deps.calls.enter(name, desktopId)
    const fence = fenceOf(parsed.data)
    const { operationId } = fence ?? {}
    const call = { name, desktopId: desktopId ?? fence?.desktopId, operationId, requestId, traceparent }
    // Awaited here: the call counts until it has ended.
    return await observe(call, async () => {
      if (desktopId && startsPrograms.has(name)) await requireUnpaused(deps, desktopId)
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
