// Makes the long-lived parts that commands and periodic work share, over one state folder and one driver.
import { freemem, totalmem } from 'node:os'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { BytePace, type Failpoints, type Log, Semaphore } from '@dormouse/process'
import { CallsInFlight } from './commands/calls-in-flight.ts'
import type { CommandDeps } from './commands/table.ts'
import { Copies, type CopiesOptions } from './copies/copies.ts'
import { Activity } from './desktops/activity.ts'
import { Digests } from './desktops/digests.ts'
import { ExecActivity } from './desktops/exec-activity.ts'
import { Figures } from './desktops/figures.ts'
import { FullDisks } from './desktops/full-disks.ts'
import { Furnishing } from './desktops/furnishing.ts'
import { GuestTroubles } from './desktops/guest-troubles.ts'
import { HeldMoves } from './desktops/held-moves.ts'
import { Journal } from './desktops/journal.ts'
import { MemoryImages } from './desktops/memory-images.ts'
import type { SendReport } from './desktops/report.ts'
import { Space } from './desktops/space.ts'
import { TemplateFolders } from './desktops/template-folders.ts'
import { Templates } from './desktops/templates.ts'
import { Troubles } from './desktops/troubles.ts'
import { Turns } from './desktops/turns.ts'
import { type Thresholds, UsageSamples } from './desktops/usage-samples.ts'
import { type HostMemory, WarmCopies, type WarmDeps } from './desktops/warm-copies.ts'
import { Watch } from './desktops/watch.ts'
import { WithoutLeader } from './desktops/without-leader.ts'
import { GuestExecs } from './guest/execs.ts'
import { Appends, Transfers } from './guest/transfers.ts'
import { GuestWatches } from './guest/watches.ts'
import { lowWaterBytes } from './images/disk-space.ts'
import { ImageEviction } from './images/eviction.ts'
import { ImageFetcher } from './images/fetcher.ts'
import type { ProgressLimits } from './images/progress-deadline.ts'
import { Inputs } from './input/inputs.ts'
import { PictureEncoder } from './input/picture-encoder.ts'
import { type AnyDriver, guestsOf } from './make-driver.ts'
import { unlessMissing } from './mechanics/durable-file.ts'
import type { Held } from './moves/held.ts'
import { ScreenClients } from './streams/screen-clients.ts'
import { MoveListener } from './transfer/listener.ts'
import type { MoveAddress } from './transfer/secret.ts'
import type { TransferTimes } from './transfer/transfer.ts'
import { RootUnit } from './upgrades/root-unit.ts'

const mib = 1024 * 1024

export interface PartsOptions {
  installationId: string
  driver: AnyDriver
  folders: { state: string; memory: string; guestKeys: string; templates: string; upgrades: string }
  /** How many boots, restores and saves run at once. */
  workAtOnce: number
  /** Where moves to this host are accepted, undefined for nowhere, and how many MiB a second they may use in each direction. */
  moves?: { listen?: MoveAddress | undefined; mibPerSec?: number | undefined; times?: TransferTimes }
  /** How much memory warm copies of sleeping desktops may hold, and how long each is kept; none by default. */
  warm?: { maxMiB: number; maxAgeMs: number; hostMemory?: () => HostMemory } | undefined
  /** How much of the disk templates of images may fill; 0, which is the default, makes none. */
  templatesMiB?: number | undefined
  /** Where copies of sleeping desktops go; nowhere by default. */
  copies?: CopiesOptions | undefined
  /** When the fetch of an image has made too little progress. */
  fetchLimits?: ProgressLimits
  /** Above these, what a guest uses is activity. */
  thresholds: Thresholds
  /** How much longer than its timeout an idle desktop runs while there is no contact with a leader; undefined for no limit. */
  leaderGraceMs?: number | undefined
  failpoints: Failpoints
  report: SendReport
  log: Log
  guestLog: Log
}

export interface Parts extends Omit<CommandDeps, 'hostKey'> {
  watch: Watch
  space: Space
  eviction: ImageEviction
  samples: UsageSamples
  troubles: Troubles
  guestTroubles: GuestTroubles
  withoutLeader: WithoutLeader
}

export async function makeParts({
  folders,
  driver,
  workAtOnce,
  guestLog,
  thresholds,
  leaderGraceMs: graceMs,
  templatesMiB: maxMiB = 0,
  ...shared
}: PartsOptions): Promise<Parts> {
  const { installationId, failpoints, log, moves: { listen, mibPerSec, times } = {} } = shared
  const journal = await Journal.open(folders.state, (name) => failpoints.hit(name))
  const makeSpace = (isShort: () => boolean) => templates.makeSpaceOn(folders.memory, isShort)
  const memory = new MemoryImages(folders.memory, installationId, makeSpace)
  const digests = new Digests(memory, (err) => log.warn({ err }, 'a digest could not be computed'))
  const guests = guestsOf(driver, folders.guestKeys, guestLog)
  await driver.open(installationId)
  const copies = new Copies(shared.copies)
  const turns: Turns = turnsOf(journal, copies, (desktopId) => watch.idle(desktopId))
  const moves = new HeldMoves<Held>()
  const listener = new MoveListener({ listen, pace: new BytePace(mibPerSec), log, ...(times && { times }) })
  const activity = new Activity()
  const figures = new Figures(join(folders.state, 'figures'))
  const slots = new Semaphore(workAtOnce)
  const warm = warmCopiesOf({ driver, journal, memory, turns, failpoints, log }, shared.warm)
  const made = { driver, guests, journal, warm, failpoints, log, folders: new TemplateFolders(folders.templates) }
  const templates: Templates = new Templates({ ...made, ...diskOf(driver) }, { maxMiB })
  const { fetcher, eviction } = imagesOf(driver, journal, templates, shared)
  const screenClients = new ScreenClients()
  const inputs = new Inputs({ driver, screenClients })
  const deps = {
    ...shared,
    activity,
    figures,
    inputs,
    screenClients,
    ...{ fetcher, copies, moves },
    driver,
    journal,
    memory,
    digests,
    guests,
    turns,
    slots,
    warm,
    templates,
    furnishing: new Furnishing({ driver, guests, journal, memory, turns, failpoints, log }),
  }
  const watch = new Watch(deps)
  const execs = new GuestExecs()
  const troubles = new Troubles()
  return {
    ...deps,
    listener,
    pace: new BytePace(mibPerSec),
    transferTimes: times,
    watch,
    space: new Space({ ...deps, watch }),
    eviction,
    calls: new CallsInFlight(activity),
    troubles,
    ...looksAtGuests({ ...deps, watch, troubles }, thresholds),
    withoutLeader: new WithoutLeader({ ...deps, watch }, { graceMs }),
    transfers: new Transfers(),
    execs,
    watches: new GuestWatches(),
    execActivity: new ExecActivity({ ...deps, watch, execs }),
    appends: new Appends(),
    pictures: new PictureEncoder(),
    rootUnit: new RootUnit(folders.upgrades),
  }
}

type GuestLooks = Pick<Parts, 'driver' | 'guests' | 'activity' | 'figures' | 'watch' | 'troubles'> & { log: Log }

/** What looks at guests every few seconds. */
function looksAtGuests(deps: GuestLooks, thresholds: Thresholds) {
  const fullDisks = new FullDisks(deps)
  return {
    samples: new UsageSamples({ ...deps, fullDisks, thresholds }),
    guestTroubles: new GuestTroubles({ ...deps, fullDisks }),
  }
}

/** A turn stops the copy of its desktop. */
const turnsOf = (journal: Journal, copies: Copies, idle: (desktopId: DesktopId) => void): Turns =>
  new Turns(journal, { accepted: (desktopId) => copies.stop(desktopId), idle })

/** The machine's memory, as the kernel reports it. */
const machineMemory = (): HostMemory => ({ totalMiB: totalmem() / mib, availableMiB: freemem() / mib })

const noWarmCopies = { maxMiB: 0, maxAgeMs: 0 }

const warmCopiesOf = (
  deps: WarmDeps,
  { hostMemory = machineMemory, ...warm }: NonNullable<PartsOptions['warm']> = noWarmCopies,
) => new WarmCopies(deps, { ...warm, hostMemory })

/** Where templates are. */
const diskOf = (driver: AnyDriver) => ({
  freeBytes: () => driver.freeDiskBytes(),
  lowWaterBytes: async () => (await lowWaterBytes(driver.images.fetchedDir).catch(unlessMissing)) ?? 0,
})

type ImageOptions = Pick<PartsOptions, 'failpoints' | 'log' | 'fetchLimits'>

/** Every desktop of the journal protects its image, also one whose disk an agent before this one was making. */
function imagesOf(
  driver: AnyDriver,
  journal: Journal,
  templates: Templates,
  { failpoints, log, fetchLimits: limits }: ImageOptions,
) {
  const store = driver.images
  const eviction: ImageEviction = new ImageEviction({
    store,
    foldersInUse: () => driver.imageFoldersInUse(),
    namesInUse: () =>
      new Set([
        ...fetcher.wanted(),
        ...templates.imagesInUse,
        ...journal.all().flatMap(({ spec }) => spec?.imageVersion ?? []),
      ]),
    partials: () => fetcher.partials(),
    templates,
    failpoints,
    log,
  })
  const makeSpace = (bytes: number) => eviction.makeSpace(bytes)
  const fetcher: ImageFetcher = new ImageFetcher({ store, makeSpace, failpoints, log, ...(limits && { limits }) })
  return { fetcher, eviction }
}
