// admin host remove: removes a host for good, after showing what would be lost.
import { DormouseError, type RemovalJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

type Options = JsonOption & { yesLose?: number }
type Needs = Pick<Context, 'operator' | 'show' | 'terminal'>

/** Adds the command. */
export function addHostRemove(command: Command, context: Needs): void {
  withJson(command.command('remove'), 'dormouse admin host remove hv-3 --yes-lose 0')
    .description('remove a host for good: closes its links, refuses its key, fails desktops whose only disk it has')
    .argument('<host>', 'name or id')
    .option('--yes-lose <n>', 'do not ask; at most this many desktops may be lost', integerFrom(0))
    .action((host: string, options: Options) => remove(context, host, options))
}

async function remove(context: Needs, host: string, options: Options): Promise<void> {
  const { operator, show, terminal } = context
  const { signal } = terminal
  const admin = operator()
  const preview = () => admin.previewRemoval(host, { signal })
  const mayLose = options.yesLose ?? (await confirmed(context, await preview(), options))
  const removal = await admin.removeHost(host, { yes_lose: mayLose }, { signal }).catch(async (error: unknown) => {
    throw codeOf(error) === 'would_lose' ? unconfirmed(await preview(), exitCodes.conflict, 'would_lose') : error
  })
  show(options, removal, () => (removal.lost > 0 ? lostTable(removal) : ''))
  if (!options.json) terminal.note(outcome(removal))
}

const codeOf = (error: unknown) => (error instanceof DormouseError ? error.code : undefined)

function outcome(removal: RemovalJson): string {
  const { name, removed_at, removed_before, lost } = removal
  if (removed_before && lost === 0) return `${name} was removed before, at ${removed_at}; nothing was changed`
  return `${name} is removed; ${lossOf(removal)}`
}

/** Names what would be lost, and how to confirm it. */
function unconfirmed({ name, lost }: RemovalJson, exitCode: number, code: string): CliError {
  const costs = lost === 0 ? 'cannot be undone' : `destroys the data of ${counted(lost)} for good`
  return new CliError(`removing ${name} ${costs}`, `to confirm, add --yes-lose ${lost}`, exitCode, { code, lost })
}

/** How many desktops a person has agreed to lose. */
async function confirmed({ terminal }: Needs, removal: RemovalJson, { json }: Options): Promise<number> {
  const { name, lost } = removal
  // It is removed already: the service says so and changes nothing.
  if (removal.removed_at && lost === 0) return 0
  if (json || !terminal.interactive) throw unconfirmed(removal, exitCodes.usage, 'not_confirmed')
  terminal.note(`${name} has the only disk of ${counted(lost)}. Removing it cannot be undone.`)
  if ((await terminal.ask('Type its name to remove it: ')).trim() === name) return lost
  throw new CliError('nothing was removed', `run it again and type ${name}`, exitCodes.usage)
}

const counted = (count: number): string => (count === 1 ? '1 desktop' : `${count} desktops`)

const lossOf = ({ lost }: RemovalJson): string =>
  lost === 0 ? 'no desktop was lost' : `${counted(lost)} failed; inform their owners`

const lostTable = ({ desktops }: RemovalJson): string =>
  table(
    ['DESKTOP', 'ORGANISATION'],
    desktops.map(({ id, org_id }) => [id, org_id]),
  )
