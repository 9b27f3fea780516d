// One action on all desktops that a selector chooses: asks for the plan, follows it, and shows what became of each.
import type { BulkBody, BulkJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type JsonOption, type KeyOption, replayNote, withJson } from '../options.ts'
import { table } from '../terminal.ts'
import { waiting } from './following.ts'

interface BulkOptions extends JsonOption, KeyOption {
  select?: string
  dryRun?: boolean
  wait?: boolean
}

/** Chooses many desktops in place of one. */
export const selectOption = (what: string): Option =>
  new Option('--select <selector>', `in place of a desktop: ${what}`)

/** Adds the command that shows a plan. */
export function addBulk(program: Command, context: Context): void {
  withJson(program.command('bulk'), 'dormouse bulk 019a9f00-0000-7000-8000-0000000000bb')
    .description('show the plan of a command with --select, and what became of each desktop')
    .argument('<plan>', 'id that the command has printed')
    .option('--wait', 'wait until each desktop has settled')
    .option('--cancel', 'begin nothing more of it; what was begun goes on')
    .action(async (plan: string, options: JsonOption & { wait?: boolean; cancel?: boolean }) => {
      const { bulk: calls } = context.customer()
      const call = { signal: context.terminal.signal }
      const now = options.cancel ? await calls.cancel(plan, call) : await calls.get(plan, call)
      show(context, options, options.wait ? await settled(context, now) : now)
    })
}

/** Throws if both a desktop and a selector are given, or none, and if an action has failed. */
export async function bulk(
  context: Context,
  action: Pick<BulkBody, 'action' | 'labels'>,
  id: string | undefined,
  options: BulkOptions,
): Promise<void> {
  const { select, dryRun, wait = true, idempotencyKey } = options
  if (select === undefined)
    throw new CliError(
      'no desktop is named',
      `name one, or some by --select: ${helpOf(action.action)}`,
      exitCodes.usage,
    )
  if (id !== undefined) throw new CliError('a desktop and --select are given', 'give one of them', exitCodes.usage)
  const plan = await context
    .customer()
    .bulk.create(
      { ...action, select, ...(dryRun && { dry_run: true }) },
      { idempotencyKey, signal: context.terminal.signal, onResponse: replayNote(context, options) },
    )
  show(context, options, plan.id === null || !wait ? plan : await settled(context, plan))
}

/** Refuses what is only for many desktops: without this, a rehearsal of a destroy would be one. */
export function requireSelect(action: BulkBody['action'], { dryRun }: BulkOptions): void {
  if (dryRun) throw new CliError('--dry-run is only for --select', `leave it out: ${helpOf(action)}`, exitCodes.usage)
}

const helpOf = (action: BulkBody['action']): string => `\`dormouse ${action === 'label' ? 'set' : action} --help\``

function settled(context: Context, { id, action, progress }: BulkJson): Promise<BulkJson> {
  const { signal } = context.terminal
  const next = `to follow it: dormouse bulk ${id} --wait; to begin nothing more: dormouse bulk ${id} --cancel`
  return waiting(context, `${action} of ${progress.total} desktops`, next, (tell) =>
    context.customer().bulk.settled(id!, { signal, onProgress: (now) => tell?.(progressText(now.progress)) }),
  )
}

const progressText = ({ total, waiting, working }: BulkJson['progress']): string =>
  `${total - waiting - working} of ${total} done`

function show(context: Context, options: JsonOption, plan: BulkJson): void {
  context.show(options, plan, () => shown(plan))
  const { failed, total } = plan.progress
  if (failed > 0)
    throw new CliError(`${failed} of ${total} desktops failed`, 'their reasons are above', exitCodes.operationFailed)
}

function shown({ id, settled_at, desktops, progress }: BulkJson): string {
  const rows = desktops.map((one) => [...[one.desktop_id, one.name, one.state, one.status, one.reason?.detail]])
  const sums = Object.entries(progress).flatMap(([status, count]) => (count > 0 ? [`${count} ${status}`] : []))
  const listed = rows.length ? `${table(['ID', 'NAME', 'STATE', 'STATUS', 'WHY'], rows)}\n` : ''
  const goesOn = id !== null && settled_at === null ? `\nIt goes on: dormouse bulk ${id} --wait` : ''
  return `${listed}${sums.join(', ') || 'no desktop is selected'}${goesOn}\n`
}
