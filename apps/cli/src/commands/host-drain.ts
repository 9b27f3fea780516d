// admin host drain: empties a host, waits for that, and prints what became of each desktop. Or prints the plan, or cancels.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminClient, DrainBody, DrainDesktopJson, DrainJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'
import { patiently, pollMs } from './patiently.ts'

interface Options extends JsonOption {
  dryRun?: boolean
  sleeping?: 'leave' | 'move'
  awake?: 'live' | 'hibernate'
  deadlineSecs?: number
  concurrency?: number
  graceSecs?: number
  cancel?: boolean
  wait: boolean
}

type Needs = Pick<Context, 'operator' | 'show' | 'terminal'>

/** Adds the command. */
export function addHostDrain(command: Command, context: Needs): void {
  withJson(command.command('drain'), 'dormouse admin host drain rack4-2 --dry-run\ndormouse admin host drain rack4-2')
    .description('cordon a host and move its desktops elsewhere; it stays cordoned until `host uncordon`')
    .argument('<host>', 'name or id')
    .option('--dry-run', 'print the plan and change nothing')
    .addOption(new Option('--sleeping <what>', 'desktops that sleep there').choices(['leave', 'move']).default('leave'))
    .addOption(new Option('--awake <how>', 'how awake ones leave').choices(['live', 'hibernate']).default('live'))
    .option('--deadline-secs <n>', 'begin nothing new after this long (default: 3600)', integerFrom(1))
    .option('--concurrency <n>', 'desktops that leave at once (default: 2)', integerFrom(1))
    .option('--grace-secs <n>', 'how long commands and transfers may delay a desktop (default: 60)', integerFrom(0))
    .option('--no-wait', 'begin it, print it, and do not wait')
    .addOption(new Option('--cancel', 'end the drain in progress; undoes what is not decided').conflicts('dryRun'))
    .action((host: string, options: Options) => drain(context, host, options))
}

async function drain(context: Needs, host: string, options: Options): Promise<void> {
  const { operator, show, terminal } = context
  const admin = operator()
  const { signal } = terminal
  const begun = options.cancel
    ? await admin.cancelDrain(await drainOf(admin, host, signal), { signal })
    : await admin.drainHost(host, bodyOf(options), { signal })
  const isOver = begun.state === 'planned' || !options.wait
  const ended = isOver ? begun : await waited(context, admin, begun, options)
  show(options, ended, () => tableOf(ended))
  if (!options.json) terminal.note(outcome(ended))
  const failure = options.cancel && ended.state === 'cancelled' ? undefined : failureOf(ended)
  if (failure) throw failure
}

function bodyOf({ dryRun, sleeping, awake, deadlineSecs, concurrency, graceSecs }: Options): DrainBody {
  return {
    sleeping,
    awake,
    ...(dryRun && { dry_run: true }),
    ...(deadlineSecs !== undefined && { deadline_secs: deadlineSecs }),
    ...(concurrency !== undefined && { concurrency }),
    ...(graceSecs !== undefined && { grace_secs: graceSecs }),
  }
}

/** The id of the drain that is in progress on the host. */
async function drainOf(admin: AdminClient, host: string, signal: AbortSignal): Promise<string> {
  const { hosts } = await admin.listHosts({ signal })
  const found = hosts.filter(({ id, name, state }) => id === host || (name === host && state !== 'removed'))
  const id = found.length === 1 ? found[0]!.drain_id : undefined
  if (id) return id
  const [what, next] =
    found.length === 0
      ? ['there is no such host', '`dormouse admin host list` names them']
      : found.length > 1
        ? [`several hosts are called ${host}`, 'name it by its id']
        : [`${host} is not being drained`, '`dormouse admin host list` shows which hosts are']
  throw new CliError(what!, next!, found.length === 0 ? exitCodes.notFound : exitCodes.conflict)
}

async function waited(context: Needs, admin: AdminClient, begun: DrainJson, options: Options): Promise<DrainJson> {
  const { terminal } = context
  const told = new Set<string>()
  const tell = (now: DrainJson) => {
    if (options.json) return
    for (const one of now.desktops)
      if (isOver(one) && one.status !== 'left' && !told.has(one.desktop_id) && told.add(one.desktop_id))
        terminal.note(`${one.desktop_id} ${resultOf(one)}`)
  }
  try {
    return await terminal.during(`draining ${begun.host_name}`, async (display) => {
      let now = begun
      while (now.settled_at === null) {
        display?.(progressOf(now))
        await sleep(pollMs, undefined, { signal: terminal.signal })
        now = await patiently(() => admin.getDrain(begun.id!, { signal: terminal.signal }))
        if (!display) tell(now)
      }
      return now
    })
  } catch (error) {
    const { reason } = terminal.signal
    if (!terminal.signal.aborted || !(reason instanceof CliError)) throw error
    const next = `to end it: dormouse admin host drain ${begun.host_id} --cancel; to keep waiting, run the same command again`
    throw new CliError(`stopped waiting; drain ${begun.id} goes on`, next, reason.exitCode)
  }
}

function failureOf({ state, id, host_name, progress }: DrainJson): CliError | undefined {
  const facts = { drain_id: id, blocked: progress.blocked }
  const again = 'free capacity on other hosts or act on the reasons, then run it again'
  if (state === 'blocked' || (state === 'planned' && progress.blocked > 0))
    return new CliError(`${progress.blocked} desktops block the drain of ${host_name}`, again, exitCodes.blocked, {
      code: 'blocked',
      ...facts,
    })
  if (state !== 'cancelled') return undefined
  return new CliError(`the drain of ${host_name} was cancelled`, 'run it again', exitCodes.cancelled, {
    code: 'cancelled',
    ...facts,
  })
}

const isOver = ({ status }: DrainDesktopJson): boolean => status !== 'waiting' && status !== 'working'

function progressOf({ progress: { total, waiting, working }, estimated_secs: secs }: DrainJson): string {
  const left = secs === null ? '' : `, about ${Math.ceil(secs)} s left`
  return `${total - waiting - working} of ${total}, ${working} in progress${left}`
}

function resultOf(one: DrainDesktopJson): string {
  if (one.status === 'moved') return `moved to ${one.to_host ?? one.to_host_id} (${one.to_host_id})`
  if (one.status === 'blocked') return `is blocked: ${one.reason?.detail}`
  return one.status === 'left' ? `stays, ${one.state}` : `is ${one.state}`
}

/** What was done, and of a cancelled one what cannot be undone. */
function outcome(ended: DrainJson): string {
  const { host_name: host, host_id, state, progress, desktops, estimated_secs: secs } = ended
  const { moved, left, gone, blocked } = progress
  const hibernated = desktops.filter((one) => one.hibernated).length
  const counts = `${moved} moved, ${left} left asleep, ${gone} destroyed or failed, ${blocked} blocked`
  const time = secs === null ? 'unknown: nothing like it was measured lately' : `about ${Math.ceil(secs)} s`
  switch (state) {
    case 'planned':
      return `${progress.total} ${progress.total === 1 ? 'desktop' : 'desktops'} on ${host} (${host_id}); time: ${time}; nothing was changed`
    case 'drained':
      return `${host} (${host_id}) is drained: ${counts}; it stays cordoned until \`dormouse admin host uncordon ${host}\``
    case 'blocked':
      return `${host} (${host_id}) is not empty: ${counts}; it stays cordoned`
    case 'cancelled':
      return `cancelled: ${moved} desktops have moved and stay where they are, ${hibernated} were hibernated and stay so; ${host} stays cordoned`
    default:
      return `drain ${ended.id} of ${host} (${host_id}) is in progress`
  }
}

const columns = ['DESKTOP', 'STATE', 'ACTION', 'STATUS', 'HOST', 'SECS', 'REASON', 'WAKE LOCKS']

function tableOf({ desktops }: DrainJson): string {
  if (desktops.length === 0) return ''
  const rows = desktops.map((one) => [
    one.desktop_id,
    one.state,
    one.action,
    one.status,
    one.to_host_id,
    one.estimated_secs,
    one.reason?.detail,
    one.wake_locks?.map(({ name, reason }) => `${name}: ${reason}`).join('; '),
  ])
  return table(columns, rows)
}
