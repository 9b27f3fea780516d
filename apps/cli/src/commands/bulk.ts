// One action on all desktops that a selector chooses: asks for the plan, follows it, and shows what became of each.
import type { BulkBody, BulkJson } from '@dormouse/client'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import type { JsonOption, KeyOption } from '../options.ts'
import { table } from '../terminal.ts'

interface BulkOptions extends JsonOption, KeyOption {
  select?: string
  dryRun?: boolean
  wait?: boolean
}

/** Throws if both a desktop and a selector are given, or none, and if an action has failed. */
export async function bulk(
  context: Context,
  action: Pick<BulkBody, 'action' | 'labels'>,
  id: string | undefined,
  options: BulkOptions,
): Promise<void> {
  const { select, dryRun, wait = true, idempotencyKey } = options
  const help = `dormouse ${action.action === 'label' ? 'set' : action.action} --help`
  if (select === undefined)
    throw new CliError('no desktop is named', `name one, or some by --select: \`${help}\``, exitCodes.usage)
  if (id !== undefined) throw new CliError('a desktop and --select are given', 'give one of them', exitCodes.usage)
  const { bulk: calls } = context.customer()
  const { signal } = context.terminal
  const plan = await calls.create({ ...action, select, ...(dryRun && { dry_run: true }) }, { idempotencyKey, signal })
  const label = `${action.action} of ${plan.progress.total} desktops`
  const done =
    plan.id === null || !wait
      ? plan
      : await context.terminal.during(label, (show) =>
          calls.settled(plan.id!, { signal, onProgress: ({ progress }) => show?.(progressText(progress)) }),
        )
  context.show(options, done, () => shown(done))
  if (done.progress.failed > 0)
    throw new CliError(
      `${done.progress.failed} of ${done.progress.total} desktops failed`,
      'their reasons are above',
      exitCodes.operationFailed,
    )
}

const progressText = ({ total, waiting, working }: BulkJson['progress']): string =>
  `${total - waiting - working} of ${total} done`

function shown({ desktops, progress }: BulkJson): string {
  const rows = desktops.map((one) => [...[one.desktop_id, one.name, one.state, one.status, one.reason?.detail]])
  const sums = Object.entries(progress).flatMap(([status, count]) => (count > 0 ? [`${count} ${status}`] : []))
  return `${rows.length ? `${table(['ID', 'NAME', 'STATE', 'STATUS', 'WHY'], rows)}\n` : ''}${sums.join(', ') || 'no desktop is selected'}\n`
}
