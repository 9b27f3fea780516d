// create, list, get.
import type { DesktopJson, DesktopState, UseClass } from '@dormouse/client'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, type KeyOption, keyOption, replayNote, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'
import { bulk, requireSelect, selectOption } from './bulk.ts'
import { addPlanOptions, type PlanOptions, planOf, shownPlan } from './plans.ts'
import { settle } from './transitions.ts'

const tiers = ['small', 'default', 'large'] as const satisfies DesktopJson['tier'][]
const billingModes = ['hourly', 'monthly'] as const satisfies DesktopJson['billing_mode'][]
const states = [
  'created',
  'waking',
  'awake',
  'hibernating',
  'hibernated',
  'stopped',
  'destroying',
  'destroyed',
  'failed',
] as const satisfies DesktopState[]

interface CreateOptions extends JsonOption, KeyOption, PlanOptions {
  name?: string
  label?: Record<string, string>
  getOrCreate?: boolean
  tier: DesktopJson['tier']
  billingMode?: DesktopJson['billing_mode']
  image?: string
  imageVersion?: string
  idleTimeoutSecs?: number
  wakeOn?: UseClass[]
  wake?: boolean
}

const useClasses = ['exec', 'files', 'input', 'screen', 'ports'] as const satisfies UseClass[]

/** The classes of calls that wake a desktop. */
const wakeOnOption = (): Option =>
  new Option('--wake-on <class...>', 'calls of these classes wake it when it is asleep').choices(useClasses)

const orders = ['created_at', '-created_at', 'name'] as const

/** Labels as `key=value`, the option given once for each. */
const labelOption = (what: string): Option =>
  new Option('--label <key=value...>', what).argParser((text, before: Record<string, string> = {}) => {
    const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    if (key === undefined) throw new InvalidArgumentError('It must be key=value, such as team=qa.')
    return { ...before, [key]: value! }
  })

const labelsText = (labels: DesktopJson['labels']): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${/[\s"]/.test(value) ? JSON.stringify(value) : value}`)
    .join(' ')

/** Chooses desktops by their state. */
export const stateOption = (): Option =>
  new Option('--state <states...>', 'only those in this state, or in one of these').choices(states)

/** Adds the commands that create and show desktops. */
export function addDesktops(program: Command, context: Context): void {
  const created = withJson(program.command('create'), 'dormouse create --tier small --wake')
    .description('create a desktop; it does not run before its first wake')
    .addOption(new Option('--tier <tier>', 'its size; `dormouse tiers` shows them').choices(tiers).default('default'))
    .addOption(new Option('--billing-mode <mode>', 'how it is billed (default: hourly)').choices(billingModes))
    .option('--image <image>', 'one of `dormouse images` (default: the service’s)')
    .addOption(new Option('--image-version <image>', 'another name of --image').conflicts('image'))
    .option(
      '--idle-timeout-secs <n>',
      'hibernate it after so long without activity, 0 = never (default: the service’s)',
      integerFrom(0),
    )
    .option('--name <name>', 'its name; other commands take it in place of its id')
    .addOption(labelOption('a label, such as team=qa; may be given more than once'))
    .option('--get-or-create', 'use the desktop of that --name, if there is one')
    .addOption(wakeOnOption())
    .option('--wake', 'also wake it, and wait until its guest is ready')
    .addOption(keyOption())
  addPlanOptions(created, { removes: false }).action((options: CreateOptions) => create(context, options))

  withJson(program.command('list'), 'dormouse list --state awake')
    .description('list desktops, newest first')
    .addOption(stateOption())
    .option('--select <selector>', 'only those whose labels match, such as team=qa,run!=42')
    .addOption(new Option('--sort <order>', 'the order (default: -created_at, newest first)').choices(orders))
    .option('--limit <n>', 'at most this many', integerFrom(1))
    .action((options: ListOptions) => list(context, options))

  withJson(program.command('get'), 'dormouse get 019a9f00-0000-7000-8000-000000000001')
    .description('show one desktop')
    .argument('<id>', 'desktop')
    .action((id: string, options: JsonOption) => get(context, id, options))

  const changed = withJson(
    program.command('set'),
    `dormouse set build-1 --name build-2 --label team=qa --remove-label run\ndormouse set build-1 --destroy-after 30d --schedule-hibernate '0 18 * * 1-5' --time-zone Europe/Berlin`,
  )
    .description('change a desktop’s name, labels, size, end, schedule or what wakes it')
    .argument('[id]', 'desktop')
    .addOption(
      selectOption('the labels of all whose labels match, such as team=qa').conflicts([
        'name',
        'tier',
        'diskGib',
        'wakeOn',
      ]),
    )
    .option('--dry-run', 'with --select: print what would be done, and do nothing')
    .option('--name <name>', 'another name')
    .option('--no-name', 'take its name away')
    .addOption(labelOption('a label to set, such as team=qa; may be given more than once'))
    .addOption(wakeOnOption())
    .option('--no-wake-on', 'no call wakes it')
    .option('--remove-label <key...>', 'a label to take away')
    .addOption(new Option('--tier <tier>', 'its processors and memory from its next boot on').choices(tiers))
    .option('--disk-gib <n>', 'the size of its disk from its next boot on; it only grows', integerFrom(1))
  addPlanOptions(changed, { removes: true }).action((id: string | undefined, options: SetOptions) =>
    set(context, id, options),
  )
}

interface SetOptions extends JsonOption, PlanOptions {
  select?: string
  dryRun?: boolean
  /** False: none. */
  name?: string | false
  label?: Record<string, string>
  /** False: none. */
  wakeOn?: UseClass[] | false
  removeLabel?: string[]
  tier?: DesktopJson['tier']
  diskGib?: number
}

async function set(context: Context, id: string | undefined, options: SetOptions): Promise<void> {
  const { name, label, wakeOn, removeLabel = [], tier, diskGib } = options
  const removed = Object.fromEntries(removeLabel.map((key) => [key, null]))
  const labels = { ...label, ...removed }
  const body = {
    ...(name !== undefined && { name: name === false ? null : name }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(wakeOn !== undefined && { wake_on: wakeOn || [] }),
    ...planOf(options),
    ...(tier && { tier }),
    ...(diskGib !== undefined && { disk_gib: diskGib }),
  }
  if (Object.keys(body).length === 0)
    throw new CliError('nothing to change is given', '`dormouse set --help` shows what it takes', exitCodes.usage)
  if (options.select !== undefined || id === undefined) return bulk(context, { action: 'label', labels }, id, options)
  requireSelect('label', options)
  context.about.id = id
  const desktop = await context.customer().changeDesktop(id, body, { signal: context.terminal.signal })
  context.show(options, desktop, () => describe(desktop))
}

async function create(context: Context, options: CreateOptions): Promise<void> {
  const client = context.customer()
  const { idempotencyKey, tier, billingMode, imageVersion, image = imageVersion, idleTimeoutSecs } = options
  const { signal } = context.terminal
  const { name, label: labels, getOrCreate, wakeOn } = options
  const desktop = await client.createDesktop(
    {
      ...{ tier, billing_mode: billingMode, image_version: image, idle_timeout_secs: idleTimeoutSecs },
      ...{ name, labels, get_or_create: getOrCreate, wake_on: wakeOn, ...planOf(options) },
    },
    { idempotencyKey, signal, onResponse: replayNote(context, options) },
  )
  if (!options.wake) return context.show(options, desktop, () => describe(desktop))
  context.about.id = desktop.id
  try {
    // Keys of creates and of transitions are separate scopes, so one key makes both repeatable.
    await settle(context, client, 'wake', desktop.id, { ...(getOrCreate && { ensure: true }) }, { idempotencyKey })
  } catch (error) {
    // The desktop exists, whatever became of its wake: print its id.
    context.show(options, desktop, () => describe(desktop))
    throw error
  }
  const awake = await client.getDesktop(desktop.id, { signal })
  context.show(options, awake, () => describe(awake))
}

interface ListOptions extends JsonOption {
  state?: DesktopState[]
  select?: string
  sort?: (typeof orders)[number]
  limit?: number
}

/** Prints desktops. */
export async function list(context: Context, options: ListOptions): Promise<void> {
  const { state, select, sort, limit } = options
  const query = { state, select, sort, limit }
  const { desktops } = await context.customer().listDesktops(query, { signal: context.terminal.signal })
  context.show(options, { desktops }, () => (desktops.length ? listing(desktops) : ''))
  if (!desktops.length && !options.json)
    context.terminal.note(
      state || select ? 'No desktop is selected.' : 'No desktops yet. Next step: dormouse create --wake',
    )
}

async function get(context: Context, id: string, options: JsonOption): Promise<void> {
  context.about.id = id
  const desktop = await context.customer().getDesktop(id, { signal: context.terminal.signal })
  context.show(options, desktop, () => describe(desktop))
}

function listing(desktops: DesktopJson[]): string {
  const rows = desktops.map((one) => [
    ...[one.id, one.name, one.state, one.tier, one.image_version, one.generation],
    ...[labelsText(one.labels), one.created_at],
  ])
  return table(['ID', 'NAME', 'STATE', 'TIER', 'IMAGE', 'GENERATION', 'LABELS', 'CREATED'], rows)
}

const describe = (desktop: DesktopJson): string => fields(described(desktop))

const later = (now: string, next: string | number | null): string =>
  next === null ? now : `${now}; ${next} from its next boot on`

/** What is shown of a desktop, by its names for people. */
export function described(desktop: DesktopJson): Record<string, string | number | null | undefined> {
  return {
    id: desktop.id,
    ...(desktop.name !== null && { name: desktop.name }),
    ...(Object.keys(desktop.labels).length > 0 && { labels: labelsText(desktop.labels) }),
    state: desktop.state,
    tier: later(desktop.tier, desktop.next_tier),
    disk: later(`${desktop.disk_gib} GiB`, desktop.next_disk_gib && `${desktop.next_disk_gib} GiB`),
    image: desktop.image_version,
    generation: desktop.generation,
    'idle timeout': desktop.idle_timeout_secs ? `${desktop.idle_timeout_secs} s` : 'never',
    ...(desktop.wake_on.length > 0 && { 'wakes on': desktop.wake_on.join(', ') }),
    ...shownPlan(desktop),
    billing: desktop.billing_mode,
    host: desktop.host_id,
    ...(desktop.failure && { failure: desktop.failure }),
    created: desktop.created_at,
    updated: desktop.updated_at,
  }
}
