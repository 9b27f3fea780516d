// create, list, get.
import type { DesktopJson, DesktopState } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, type KeyOption, keyOption, replayNote, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'
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

interface CreateOptions extends JsonOption, KeyOption {
  tier: DesktopJson['tier']
  billingMode?: DesktopJson['billing_mode']
  image?: string
  imageVersion?: string
  idleTimeoutSecs?: number
  wake?: boolean
}

/** Chooses desktops by their state. */
export const stateOption = (): Option =>
  new Option('--state <states...>', 'only those in this state, or in one of these').choices(states)

/** Adds the commands that create and show desktops. */
export function addDesktops(program: Command, context: Context): void {
  withJson(program.command('create'), 'dormouse create --tier small --wake')
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
    .option('--wake', 'also wake it, and wait until its guest is ready')
    .addOption(keyOption())
    .action((options: CreateOptions) => create(context, options))

  withJson(program.command('list'), 'dormouse list --state awake')
    .description('list desktops, newest first')
    .addOption(stateOption())
    .option('--limit <n>', 'at most this many', integerFrom(1))
    .action((options: JsonOption & { state?: DesktopState[]; limit?: number }) => list(context, options))

  withJson(program.command('get'), 'dormouse get 019a9f00-0000-7000-8000-000000000001')
    .description('show one desktop')
    .argument('<id>', 'desktop')
    .action((id: string, options: JsonOption) => get(context, id, options))
}

async function create(context: Context, options: CreateOptions): Promise<void> {
  const client = context.customer()
  const { idempotencyKey, tier, billingMode, imageVersion, image = imageVersion, idleTimeoutSecs } = options
  const { signal } = context.terminal
  const desktop = await client.createDesktop(
    { tier, billing_mode: billingMode, image_version: image, idle_timeout_secs: idleTimeoutSecs },
    { idempotencyKey, signal, onResponse: replayNote(context, options) },
  )
  if (!options.wake) return context.show(options, desktop, () => describe(desktop))
  context.about.id = desktop.id
  try {
    // Keys of creates and of transitions are separate scopes, so one key makes both repeatable.
    await settle(context, client, 'wake', desktop.id, {}, { idempotencyKey })
  } catch (error) {
    // The desktop exists, whatever became of its wake: print its id.
    context.show(options, desktop, () => describe(desktop))
    throw error
  }
  const awake = await client.getDesktop(desktop.id, { signal })
  context.show(options, awake, () => describe(awake))
}

/** Prints desktops. */
export async function list(
  context: Context,
  options: JsonOption & { state?: DesktopState[]; limit?: number },
): Promise<void> {
  const { state, limit } = options
  const { desktops } = await context.customer().listDesktops({ state, limit }, { signal: context.terminal.signal })
  context.show(options, { desktops }, () => (desktops.length ? listing(desktops) : ''))
  if (!desktops.length && !options.json)
    context.terminal.note(
      state ? `No desktop is ${state.join(' or ')}.` : 'No desktops yet. Next step: dormouse create --wake',
    )
}

async function get(context: Context, id: string, options: JsonOption): Promise<void> {
  context.about.id = id
  const desktop = await context.customer().getDesktop(id, { signal: context.terminal.signal })
  context.show(options, desktop, () => describe(desktop))
}

function listing(desktops: DesktopJson[]): string {
  const rows = desktops.map((one) => [one.id, one.state, one.tier, one.image_version, one.generation, one.created_at])
  return table(['ID', 'STATE', 'TIER', 'IMAGE', 'GENERATION', 'CREATED'], rows)
}

const describe = (desktop: DesktopJson): string => fields(described(desktop))

/** What is shown of a desktop, by its names for people. */
export function described(desktop: DesktopJson): Record<string, string | number | null | undefined> {
  return {
    id: desktop.id,
    state: desktop.state,
    tier: desktop.tier,
    image: desktop.image_version,
    generation: desktop.generation,
    'idle timeout': desktop.idle_timeout_secs ? `${desktop.idle_timeout_secs} s` : 'never',
    billing: desktop.billing_mode,
    host: desktop.host_id,
    ...(desktop.failure && { failure: desktop.failure }),
    created: desktop.created_at,
    updated: desktop.updated_at,
  }
}
