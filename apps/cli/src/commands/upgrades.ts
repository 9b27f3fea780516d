// admin upgrade: plans an upgrade, upgrades the agents of hosts a batch at a time, and waits for that.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminClient, UpgradeJson, UpgradePlanJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'
import { patiently, pollMs } from './patiently.ts'

interface Options extends JsonOption {
  to?: string
  batch?: number
  timeoutSecs?: number
  cancel?: boolean
  wait: boolean
}

type Needs = Pick<Context, 'operator' | 'show' | 'terminal'>

/** Adds the commands. */
export function addUpgrades(command: Command, context: Needs): void {
  const { operator, show, terminal } = context
  withJson(command.command('plan'), 'dormouse admin upgrade plan --to 0.2.0')
    .description('show the release of each replica and host, what to upgrade next, and what would not work')
    .option('--to <version>', 'the release to plan for (default: the newest that runs)')
    .action(async (options: JsonOption & { to?: string }) => {
      const plan = await operator().planUpgrade(options.to, { signal: terminal.signal })
      show(options, plan, () => planText(plan))
    })
  withJson(command.command('hosts'), 'dormouse admin upgrade hosts --to 0.2.0 --batch 2')
    .description('upgrade the agents of all hosts a batch at a time, and stop at the first that is not healthy again')
    .option('--to <version>', 'version of the package (default: the newest in each host’s repository)')
    .option('--batch <n>', 'hosts at once (default: 1)', integerFrom(1))
    .option('--timeout-secs <n>', 'how long one host may take (default: 600)', integerFrom(1))
    .option('--no-wait', 'begin it, print it, and do not wait')
    .addOption(new Option('--cancel', 'end the upgrade in progress; hosts that have begun go on'))
    .action((options: Options) => upgrade(context, options))
  withJson(command.command('list'), 'dormouse admin upgrade list')
    .description('list the newest upgrades of hosts, the latest first')
    .action(async (options: JsonOption) => {
      const { upgrades } = await operator().listUpgrades({ signal: terminal.signal })
      const rows = upgrades.map((one) => [one.id, one.version ?? 'newest', one.state, countsOf(one), one.created_at])
      show(options, { upgrades }, () => table(['ID', 'VERSION', 'STATE', 'HOSTS', 'BEGAN'], rows))
    })
}

function planText({ target, replicas, hosts, steps, problems }: UpgradePlanJson): string {
  const rows = [
    ...replicas.map((one) => [
      `replica ${one.url}`,
      `${one.version} ${one.commit}`,
      one.action,
      one.leads ? 'leads' : null,
    ]),
    ...hosts.map((one) => [`host ${one.host_name}`, one.version, one.action, one.reason]),
  ]
  const list = (title: string, lines: string[]) =>
    lines.length > 0 ? `\n${title}\n${lines.map((line, at) => `${at + 1}. ${line}\n`).join('')}` : ''
  const next = steps.length > 0 ? list('Do this, in this order:', steps) : `\nEverything runs ${target}.\n`
  return table(['WHERE', 'VERSION', 'ACTION', 'NOTE'], rows) + next + list('This would not work:', problems)
}

async function upgrade(context: Needs, options: Options): Promise<void> {
  const { operator, show, terminal } = context
  const { signal } = terminal
  const { to: version, batch, timeoutSecs } = options
  const admin = operator()
  const begun = options.cancel
    ? await admin.cancelUpgrade(await liveOf(admin, signal), { signal })
    : await admin.upgradeHosts({ version, batch, timeout_secs: timeoutSecs }, { signal })
  const ended = options.wait ? await waited(context, admin, begun, options) : begun
  show(options, ended, () => tableOf(ended))
  if (ended.state === 'failed')
    throw new CliError(
      ended.hosts.find(({ status }) => status === 'failed')?.reason ?? 'a host was not healthy after its upgrade',
      'repair that host, or install its former version, then run this again',
      exitCodes.operationFailed,
      { code: 'failed', upgrade_id: ended.id },
    )
  if (ended.state === 'cancelled' && !options.cancel)
    throw new CliError('the upgrade was cancelled', 'run it again', exitCodes.cancelled, { code: 'cancelled' })
  if (!options.json) terminal.note(`${ended.state}: ${countsOf(ended)}`)
}

async function liveOf(admin: AdminClient, signal: AbortSignal): Promise<string> {
  const { upgrades } = await admin.listUpgrades({ signal })
  const live = upgrades.find(({ settled_at }) => settled_at === null)
  if (live) return live.id
  throw new CliError(
    'no upgrade is in progress',
    '`dormouse admin upgrade list` shows those that have ended',
    exitCodes.conflict,
  )
}

async function waited(context: Needs, admin: AdminClient, begun: UpgradeJson, options: Options): Promise<UpgradeJson> {
  const { terminal } = context
  const told = new Set<string>()
  const tell = ({ hosts }: UpgradeJson) => {
    for (const one of options.json ? [] : hosts)
      if ((one.status === 'upgraded' || one.status === 'failed') && !told.has(one.host_id) && told.add(one.host_id))
        terminal.note(`${one.host_name}: ${one.status}${one.reason ? `, ${one.reason}` : ` to ${one.version}`}`)
  }
  try {
    return await terminal.during('upgrading hosts', async (display) => {
      let now = begun
      while (now.settled_at === null) {
        display?.(`${countsOf(now)}; ${workingOf(now)}`)
        await sleep(pollMs, undefined, { signal: terminal.signal })
        now = await patiently(() => admin.getUpgrade(begun.id, { signal: terminal.signal }))
        if (!display) tell(now)
      }
      return now
    })
  } catch (error) {
    const { reason } = terminal.signal
    if (!terminal.signal.aborted || !(reason instanceof CliError)) throw error
    const next = 'to end it: dormouse admin upgrade hosts --cancel; to keep waiting, run the same command again'
    throw new CliError(`stopped waiting; upgrade ${begun.id} goes on`, next, reason.exitCode)
  }
}

const countsOf = ({ progress: { total, upgraded, failed, skipped } }: UpgradeJson): string =>
  `${upgraded} of ${total} upgraded, ${failed} failed, ${skipped} skipped`

const workingOf = ({ hosts }: UpgradeJson): string =>
  hosts
    .filter(({ status }) => status === 'working')
    .map(({ host_name, reason }) => `${host_name}: ${reason ?? 'begins'}`)
    .join('; ')

function tableOf({ hosts }: UpgradeJson): string {
  const rows = hosts.map((one) => [one.host_id, one.host_name, one.status, one.from_version, one.version, one.reason])
  return table(['ID', 'HOST', 'STATUS', 'FROM', 'VERSION', 'REASON'], rows)
}
