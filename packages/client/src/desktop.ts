// A desktop as an object, in camelCase: its fields as last read, and its methods.
import type {
  ActivityClass,
  DesktopJson,
  IdleJson,
  MetricsJson,
  OperationJson,
  RequestKind,
  ScreenJson,
  UseClass,
  WakeBody,
  WakeLockJson,
} from '@dormouse/contract'
import type { InputAction, InputBatch } from './adapters.ts'
import { type Camel, camel } from './camel.ts'
import {
  type Client,
  type ClientOptions,
  createClient,
  type DesktopQuery,
  type MetricsQuery,
  type NewDesktop,
} from './client.ts'
import { Clipboard, Commands, Files, Stream } from './guest.ts'
import { type CallOptions, callNames, httpNames, type KeyedOptions } from './http.ts'
import { type InputOptions, type InputResult, inputBodyOf, inputNames } from './input.ts'
import { idOfDesktop } from './naming.ts'
import { type SettleOptions, settleNames } from './operations.ts'
import { type NamesOf, refuseUnknown, wholeSeconds } from './options.ts'
import { type Resolution, setResolution } from './resolution.ts'
import { type Schedule, scheduleBodyOf, shownSchedule } from './schedules.ts'
import { ScreenHelpers } from './screen-helpers.ts'
import type { ScreenshotQuery } from './screenshots.ts'
import { type Inspect, inspect, showFields } from './shown-fields.ts'

/** An existing client, or the options of a new one. DORMOUSE_URL and DORMOUSE_API_KEY are the defaults. */
export type Connection = { client?: Client } & Partial<ClientOptions>

export type Operation = Camel<OperationJson>

export type CreateOptions = Connection & KeyedOptions & Camel<NewDesktop>

export interface TransitionOptions extends Omit<SettleOptions, 'onProgress'> {
  /** Throws StaleGenerationError if the desktop is on another generation. */
  expectedGeneration?: number
  onProgress?: (operation: Operation) => void
}

export interface WakeOptions extends TransitionOptions {
  /** Discard the saved memory and boot from disk. */
  discardMemory?: boolean
}

export type Idle = Camel<IdleJson>
export type Metrics = Camel<MetricsJson>
export type Screen = Camel<ScreenJson>
export type WakeLock = Camel<WakeLockJson>

/** What to change; what is not given stays. */
export interface ChangeOptions extends CallOptions {
  /** 0 = never. */
  idleTimeoutSecs?: number
  /** The classes of activity that keep it awake; null for all but `cpu` and `network`. */
  idlePolicy?: ActivityClass[] | null
  /** Null: none. */
  name?: string | null
  /** Labels to set; null removes one. */
  labels?: Record<string, string | null>
  /** Seconds from now after which the service destroys the desktop; null for never. */
  destroyAfterSecs?: number | null
  /** When it wakes and hibernates by itself. What is not named stays; null removes. */
  schedule?: Schedule | null
  /** The classes of calls that wake it when it is asleep; `[]` for none. */
  wakeOn?: UseClass[]
  /** Its processors and memory from its next boot on. */
  tier?: DesktopJson['tier']
  /** The size of its disk from its next boot on, in GiB; it only grows. */
  diskGib?: number
}

export interface LockOptions extends CallOptions {
  /** Why the desktop must stay awake; its idle view shows it. */
  reason: string
  forMs: number
}

const transitionNames: NamesOf<TransitionOptions> = { ...settleNames, expectedGeneration: true }
const wakeNames: NamesOf<WakeOptions> = { ...transitionNames, discardMemory: true }
const connectNames: NamesOf<Connection & CallOptions> = { ...httpNames, ...callNames, client: true, apiKey: true }
const listNames = { ...connectNames, state: true, name: true, select: true, sort: true, pageSize: true } as const
const createNames: NamesOf<CreateOptions> = {
  ...{ ...connectNames, tier: true, billingMode: true, imageVersion: true, image: true },
  ...{ idleTimeoutSecs: true, idempotencyKey: true, name: true, labels: true, getOrCreate: true },
  ...{ destroyAfterSecs: true, schedule: true, wakeOn: true },
}
const changeNames: NamesOf<ChangeOptions> = {
  ...{ ...callNames, idleTimeoutSecs: true, idlePolicy: true, name: true, labels: true },
  ...{ destroyAfterSecs: true, schedule: true, wakeOn: true, tier: true, diskGib: true },
}
const metricsNames: NamesOf<MetricsQuery & CallOptions> = { ...callNames, start: true, end: true, step: true }
const lockNames: NamesOf<LockOptions> = { ...callNames, reason: true, forMs: true }
const screenshotNames: NamesOf<ScreenshotQuery & CallOptions> = {
  ...{ ...callNames, region: true, fit: true, format: true, quality: true, wait: true, after: true },
  ...{ quietMs: true, maxMs: true },
}

export class Desktop extends ScreenHelpers {
  readonly commands: Commands
  readonly files: Files
  readonly stream: Stream
  readonly clipboard: Clipboard
  readonly #client: Client
  #seen: DesktopJson

  private constructor(client: Client, seen: DesktopJson) {
    super()
    this.#client = client
    this.#seen = seen
    this.commands = new Commands(client, seen.id)
    this.files = new Files(client, seen.id)
    this.stream = new Stream(client, seen.id)
    this.clipboard = new Clipboard(client, seen.id)
  }

  /**
   * Creates a desktop, of the tier `default` if none is given; it does not run before its first `wake()`. With `getOrCreate`, the
   * one of that name is returned as it is, if there is one.
   */
  static async create(options: CreateOptions = {}): Promise<Desktop> {
    refuseUnknown('Desktop.create', options, createNames)
    const client = clientOf(options)
    const { tier, billingMode, imageVersion, image, idleTimeoutSecs, idempotencyKey, ...rest } = options
    const { name, labels, getOrCreate, destroyAfterSecs, schedule, wakeOn, ...call } = rest
    const body = {
      tier,
      billing_mode: billingMode,
      image_version: imageVersion,
      image,
      idle_timeout_secs: idleTimeoutSecs,
      name,
      labels,
      get_or_create: getOrCreate,
      destroy_after_secs: destroyAfterSecs,
      schedule: scheduleBodyOf(schedule),
      wake_on: wakeOn,
    }
    return new Desktop(client, await client.createDesktop(body, { idempotencyKey, ...callOptions(call) }))
  }

  /** Reads an existing desktop, by its id, its name or a unique part of its id. Never wakes it, never changes its settings. */
  static async connect(idOrName: string, options: Connection & CallOptions = {}): Promise<Desktop> {
    refuseUnknown('Desktop.connect', options, connectNames)
    const client = clientOf(options)
    const call = callOptions(options)
    return new Desktop(client, await client.getDesktop(await idOfDesktop(client, idOrName, call), call))
  }

  /** All desktops that are chosen, newest first unless `sort` is given, read page by page. */
  static async *list(
    options: Connection & CallOptions & Omit<DesktopQuery, 'limit' | 'cursor'> & { pageSize?: number } = {},
  ): AsyncGenerator<Desktop, void, undefined> {
    refuseUnknown('Desktop.list', options, listNames)
    const client = clientOf(options)
    let cursor: string | undefined
    do {
      const { state, name, select, sort, pageSize = 100 } = options
      const query = { state, name, select, sort, limit: pageSize, cursor }
      const page = await client.listDesktops(query, callOptions(options))
      for (const seen of page.desktops) yield new Desktop(client, seen)
      cursor = page.next
    } while (cursor !== undefined)
  }

  get id() {
    return this.#seen.id
  }
  /** Unique among the organisation's desktops; null if it has none. */
  get name() {
    return this.#seen.name
  }
  get labels() {
    return this.#seen.labels
  }
  /** When the service destroys it; null for never. */
  get destroyAt() {
    return this.#seen.destroy_at
  }
  /** When it wakes and hibernates by itself; `idle()` has what comes next. */
  get schedule() {
    return shownSchedule(this.#seen.schedule)
  }
  /** The classes of calls that wake it when it is asleep. */
  get wakeOn() {
    return this.#seen.wake_on
  }
  get orgId() {
    return this.#seen.org_id
  }
  /** What it has now. */
  get tier() {
    return this.#seen.tier
  }
  /** The tier of its next boot; null if that is the same. */
  get nextTier() {
    return this.#seen.next_tier
  }
  /** The size of its disk, in GiB. */
  get diskGib() {
    return this.#seen.disk_gib
  }
  /** The size of its disk from its next boot on; null if that is the same. */
  get nextDiskGib() {
    return this.#seen.next_disk_gib
  }
  /** As last read; `refresh()` reads it again. */
  get state() {
    return this.#seen.state
  }
  get imageVersion() {
    return this.#seen.image_version
  }
  get generation() {
    return this.#seen.generation
  }
  get currentGenerationId() {
    return this.#seen.current_generation_id
  }
  /** After this long without activity it hibernates; 0 = never. */
  get idleTimeoutSecs() {
    return this.#seen.idle_timeout_secs
  }
  /** The classes of activity that keep it awake. */
  get idlePolicy() {
    return this.#seen.idle_policy
  }
  get billingMode() {
    return this.#seen.billing_mode
  }
  get hostId() {
    return this.#seen.host_id
  }
  /** Why it is `failed`, and what to do; null in every other state. */
  get failure() {
    return this.#seen.failure
  }
  get createdAt() {
    return new Date(this.#seen.created_at)
  }
  get updatedAt() {
    return new Date(this.#seen.updated_at)
  }

  /** Its id, so that it can be used in a text. */
  override toString(): string {
    return this.id
  }

  toJSON(): Camel<DesktopJson> {
    return camel(this.#seen)
  }

  [inspect](_depth: number, options: unknown, inspectValue?: Inspect) {
    return showFields(
      'Desktop',
      { id: this.id, ...(this.name && { name: this.name }), state: this.state },
      options,
      inspectValue,
    )
  }

  /** Reads the desktop again. */
  async refresh(options?: CallOptions): Promise<this> {
    this.#seen = await this.#client.getDesktop(this.id, options)
    return this
  }

  /**
   * Wakes the desktop, and waits until its guest responds and its image's readiness check passes. `result.resumedFrom` is what
   * was restored; `result.ready` is false if the check had not passed in time.
   */
  wake(options: WakeOptions = {}): Promise<Operation> {
    return this.#settle('wake', options, { discard_memory: options.discardMemory })
  }
  resume(options?: WakeOptions): Promise<Operation> {
    return this.wake(options)
  }

  /**
   * Wakes the desktop unless it is awake, and waits until it is. Joins a wake in progress, and waits behind a hibernation.
   * Returns the wake that the desktop is awake by, which may have settled long before.
   */
  ensureAwake(options: TransitionOptions = {}): Promise<Operation> {
    return this.#settle('wake', options, { ensure: true })
  }

  /** Saves memory and disk, and waits until the desktop has stopped. */
  hibernate(options: TransitionOptions = {}): Promise<Operation> {
    return this.#settle('hibernate', options)
  }
  pause(options?: TransitionOptions): Promise<Operation> {
    return this.hibernate(options)
  }

  /** Hibernates the desktop unless it is hibernated, and waits until it is. Joins a hibernation in progress. */
  ensureHibernated(options: TransitionOptions = {}): Promise<Operation> {
    return this.#settle('hibernate', options, { ensure: true })
  }

  /** Deletes the desktop and all its data for good. */
  destroy(options: TransitionOptions = {}): Promise<Operation> {
    return this.#settle('destroy', options)
  }
  kill(options?: TransitionOptions): Promise<Operation> {
    return this.destroy(options)
  }

  /** What keeps the desktop awake now, and when it will hibernate by itself. */
  async idle(options?: CallOptions): Promise<Idle> {
    return camel(await this.#client.getIdle(this.id, options))
  }

  /**
   * What it has used of its processor, memory, disk and network between two times in Unix seconds, at most 24 h apart; by default
   * in the last hour. `missing` says why steps have no point.
   */
  async metrics(options: MetricsQuery & CallOptions = {}): Promise<Metrics> {
    refuseUnknown('metrics', options, metricsNames)
    const { start, end, step } = options
    return camel(await this.#client.getMetrics(this.id, { start, end, step }, callOptions(options)))
  }

  /** Changes what is given. Idle time counts from a change of its timeout or policy on. */
  async change(options: ChangeOptions): Promise<this> {
    refuseUnknown('change', options, changeNames)
    const { idleTimeoutSecs, idlePolicy, name, labels, destroyAfterSecs, schedule, wakeOn, tier, diskGib, ...call } =
      options
    const body = {
      idle_timeout_secs: idleTimeoutSecs,
      idle_policy: idlePolicy,
      name,
      labels,
      destroy_after_secs: destroyAfterSecs,
      schedule: scheduleBodyOf(schedule),
      wake_on: wakeOn,
      tier,
      disk_gib: diskGib,
    }
    this.#seen = await this.#client.changeDesktop(this.id, body, call)
    return this
  }

  /** `change` of when the desktop hibernates by itself. */
  changeIdle(options: Pick<ChangeOptions, 'idleTimeoutSecs' | 'idlePolicy'> & CallOptions): Promise<this> {
    return this.change(options)
  }

  /** Keeps the desktop awake for `forMs`, at most 24 h, rounded up to whole seconds. The same name again renews the lock. */
  async lock(name: string, options: LockOptions): Promise<WakeLock> {
    refuseUnknown('lock', options, lockNames)
    const { reason, forMs, ...call } = options
    const body = { reason, expires_in_secs: wholeSeconds('forMs', forMs) }
    return camel(await this.#client.putWakeLock(this.id, name, body, call))
  }

  /** Ends a wake lock, if there is one; returns those that are left. */
  async unlock(name: string, options?: CallOptions): Promise<WakeLock[]> {
    return camel((await this.#client.deleteWakeLock(this.id, name, options)).wake_locks)
  }

  /**
   * Types and points: all actions or, if one is not valid, none. `outcome` is what became of them; `unknown` is never done
   * again. ConflictError (`claim_held`) while another client controls the screen.
   */
  async input(actions: readonly InputAction[] | InputBatch, options: InputOptions = {}): Promise<InputResult> {
    refuseUnknown('input', options, inputNames)
    const { idempotencyKey } = options
    const call = { ...callOptions(options), ...(idempotencyKey !== undefined && { idempotencyKey }) }
    return camel(await this.#client.sendInput(this.id, inputBodyOf(actions, options), call))
  }

  /** The screen as it is now, as PNG; the desktop must be awake. */
  screenshot(options?: CallOptions): Promise<Uint8Array<ArrayBuffer>> {
    return this.#client.screenshot(this.id, options)
  }

  /** A picture of the screen, or of a part, as PNG or JPEG, once it is as `wait` requires; with its sequence. */
  async takeScreenshot(options: ScreenshotQuery & CallOptions = {}) {
    refuseUnknown('takeScreenshot', options, screenshotNames)
    const { signal, timeoutMs, retries, onResponse, wake, ...query } = options
    return this.#client.takeScreenshot(this.id, query, { signal, timeoutMs, retries, onResponse, wake })
  }

  /** The screen's size, pointer and sequence, and who controls it. */
  async screen(options?: CallOptions): Promise<Screen> {
    return camel(await this.#client.getScreen(this.id, options))
  }

  /**
   * Changes the size of an awake desktop's screen, and returns what it is then. The desktop keeps it, also when it boots again.
   * Throws InvalidRequestError on a size that the screen cannot have.
   */
  setResolution(size: Resolution, options?: CallOptions): Promise<Resolution> {
    return setResolution(this.#client, this.id, size, options)
  }

  async #settle(kind: RequestKind, options: TransitionOptions, body: WakeBody = {}) {
    refuseUnknown(kind, options, kind === 'wake' && !body.ensure ? wakeNames : transitionNames)
    const { expectedGeneration, onProgress, discardMemory: _, ...rest }: WakeOptions = options
    const operation = await this.#client.settle(
      kind,
      this.id,
      { expected_generation: expectedGeneration, ...body },
      { ...rest, onProgress: (seen) => onProgress?.(camel(seen)) },
    )
    this.#take(operation)
    return camel(operation)
  }

  /** Updates the fields from the operation's result, which saves a request. */
  #take({ result, settled_at }: OperationJson): void {
    if (!result) return
    this.#seen = {
      ...this.#seen,
      state: result.desktop_state,
      generation: result.generation,
      current_generation_id: result.generation_id,
      host_id: result.host_id,
      ...(result.tier && { tier: result.tier, next_tier: result.next_tier ?? null }),
      ...(result.disk_gib && { disk_gib: result.disk_gib, next_disk_gib: result.next_disk_gib ?? null }),
      updated_at: settled_at ?? this.#seen.updated_at,
    }
  }
}

function clientOf({ client, baseUrl, apiKey, ...options }: Connection): Client {
  if (client) return client
  const { env = {} } = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process ?? {}
  const connection = Object.entries(options).filter(([name]) => name in httpNames)
  return createClient({
    ...Object.fromEntries(connection),
    baseUrl: baseUrl ?? env.DORMOUSE_URL ?? '',
    apiKey: apiKey ?? env.DORMOUSE_API_KEY ?? '',
  })
}

function callOptions({ signal, timeoutMs, retries, onResponse, wake }: CallOptions): CallOptions {
  return { signal, timeoutMs, retries, onResponse, wake }
}
