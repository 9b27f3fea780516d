// idle, lock and unlock: shows when a desktop hibernates by itself, changes that, and keeps it awake for a while.
import type { ActivityClass, ChangeDesktopBody, IdleJson } from '@dormouse/client'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from '../context.ts'
import { durationSecs, integerFrom, type JsonOption, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'

const classes = ['command', 'transfer', 'screen', 'input', 'cpu', 'network'] as const satisfies ActivityClass[]
const id = '019a9f00-0000-7000-8000-000000000001'

interface IdleOptions extends JsonOption {
  timeoutSecs?: number
  policy?: ActivityClass[] | 'default'
}

interface LockOptions extends JsonOption {
  for: number
  reason: string
}

/** Adds the commands about idle desktops. */
export function addIdle(program: Command, context: Context): void {
  withJson(program.command('idle'), `dormouse idle ${id}\ndormouse idle ${id} --timeout-secs 600 --policy command,cpu`)
    .description(
      'show what keeps a desktop awake, and when it hibernates, wakes or ends by itself; the options change that first',
    )
    .argument('<id>', 'desktop')
    .option('--timeout-secs <n>', 'hibernate it after so long without activity, 0 = never', integerFrom(0))
    .addOption(
      new Option('--policy <classes>', `which activity counts: default, or some of ${classes.join(',')}`).argParser(
        policyFrom,
      ),
    )
    .action((desktop: string, options: IdleOptions) => idle(context, desktop, options))
  withJson(program.command('lock'), `dormouse lock ${id} build --for 2h --reason "nightly build"`)
    .description('keep a desktop awake for a while; again, to keep it awake longer')
    .argument('<id>', 'desktop')
    .argument('<name>', 'name of the wake lock')
    .addOption(
      new Option('--for <time>', 'how long, at most 24h, such as 90s, 45m or 2h')
        .argParser(durationSecs)
        .makeOptionMandatory(),
    )
    .option('--reason <text>', 'why; `dormouse idle` shows it', 'locked with dormouse lock')
    .action((desktop: string, name: string, options: LockOptions) => lock(context, desktop, name, options))
  withJson(program.command('unlock'), `dormouse unlock ${id} build`)
    .description('end a wake lock')
    .argument('<id>', 'desktop')
    .argument('<name>', 'name of the wake lock')
    .action((desktop: string, name: string, options: JsonOption) => unlock(context, desktop, name, options))
}

async function idle(context: Context, desktop: string, options: IdleOptions): Promise<void> {
  context.about.id = desktop
  const client = context.customer()
  const { signal } = context.terminal
  const { timeoutSecs, policy } = options
  const change: ChangeDesktopBody = {
    ...(timeoutSecs !== undefined && { idle_timeout_secs: timeoutSecs }),
    ...(policy !== undefined && { idle_policy: policy === 'default' ? null : policy }),
  }
  if (Object.keys(change).length > 0) await client.changeDesktop(desktop, change, { signal })
  const seen = await client.getIdle(desktop, { signal })
  context.show(options, seen, () => describe(seen))
}

async function lock(context: Context, desktop: string, name: string, options: LockOptions): Promise<void> {
  context.about.id = desktop
  const body = { reason: options.reason, expires_in_secs: options.for }
  const made = await context.customer().putWakeLock(desktop, name, body, { signal: context.terminal.signal })
  context.show(options, made, () => `${desktop} stays awake until ${made.expires_at}\n`)
}

async function unlock(context: Context, desktop: string, name: string, options: JsonOption): Promise<void> {
  context.about.id = desktop
  const left = await context.customer().deleteWakeLock(desktop, name, { signal: context.terminal.signal })
  const others = left.wake_locks.map((one) => one.name).join(', ')
  context.show(options, left, () =>
    others ? `${desktop} has other wake locks: ${others}\n` : `${desktop} has no wake lock\n`,
  )
}

function describe(seen: IdleJson): string {
  const { state, idle_timeout_secs: secs, sleeps_at: sleepsAt, awake_because: because, activity } = seen
  const head = fields({
    state,
    'idle timeout': secs === 0 ? 'never' : `${secs} s`,
    counts: seen.idle_policy.join(', '),
    sleeps: sleepsAt ?? (state === 'awake' ? 'not known' : undefined),
  })
  const next = table(
    ['NEXT', 'AT', 'BECAUSE'],
    (seen.next ?? []).map((one) => [one.what, one.at, one.because]),
  )
  const reasons = table(
    ['AWAKE BECAUSE', 'UNTIL', 'DETAIL'],
    because.map((one) => [one.reason, one.until, one.detail]),
  )
  const rows = activity.map((one) => [one.class, one.counts ? 'yes' : 'no', one.now ? 'now' : one.last_at])
  return [
    head,
    ...(seen.next?.length ? [next] : []),
    ...(because.length > 0 ? [reasons] : []),
    table(['ACTIVITY', 'COUNTS', 'LATEST'], rows),
  ].join('\n')
}

function policyFrom(text: string): ActivityClass[] | 'default' {
  if (text === 'default') return text
  const given = text.split(',').map((one) => one.trim())
  const known = classes.filter((one) => given.includes(one))
  if (given.every((one) => (known as string[]).includes(one))) return known
  throw new InvalidArgumentError(`It must be default, or some of ${classes.join(',')}.`)
}
