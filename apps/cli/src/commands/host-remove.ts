// admin host remove: removes a host for good, or declares it lost, after showing what would be lost. admin host return: takes
// a lost one back.
import { DormouseError, type RemovalJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

type Options = JsonOption & { yesLose?: number; lost?: boolean }
type Needs = Pick<Context, 'operator' | 'show' | 'terminal'>

/** Adds the command. */
export function addHostRemove(command: Command, context: Needs): void {
  withJson(command.command('remove'), 'dormouse admin host remove hv-3 --yes-lose 0')
    .description('remove a host for good: closes its links, refuses its key, fails desktops whose only disk it has')
    .argument('<host>', 'name or id')
    .option('--lost', 'declare an unreachable host lost instead: the same desktops fail, but `host return` may undo it')
    .option('--yes-lose <n>', 'do not ask; at most this many desktops may be lost', integerFrom(0))
    .action((host: string, options: Options) => remove(context, host, options))
}

/** Adds the command. */
export function addHostReturn(command: Command, { operator, show, terminal }: Needs): void {
  withJson(command.command('return'), 'dormouse admin host return hv-3')
    .description('take a lost host that is linked again back into service, with the desktops that failed with it')
    .argument('<host>', 'name or id')
    .action(async (host: string, options: JsonOption) => {
      const returned = await operator().returnHost(host, { signal: terminal.signal })
      show(options, returned, () => desktopsTable(returned.desktops))
      if (!options.json)
        terminal.note(`${returned.name} is in service again; it reports what it has of these desktops in a moment`)
    })
}

async function remove(context: Needs, host: string, options: Options): Promise<void> {
  const { operator, show, terminal } = context
  const { signal } = terminal
  const admin = operator()
  const preview = () => admin.previewRemoval(host, { signal })
  const mayLose = options.yesLose ?? (await confirmed(context, await preview(), options))
  const end = options.lost ? admin.loseHost : admin.removeHost
  const removal = await end(host, { yes_lose: mayLose }, { signal }).catch(async (error: unknown) => {
    throw codeOf(error) === 'would_lose' ? unconfirmed(await preview(), exitCodes.conflict, 'would_lose') : error
  })
  show(options, removal, () => desktopsTable(removal.desktops))
  if (!options.json) terminal.note(outcome(removal, options))
}

const codeOf = (error: unknown) => (error instanceof DormouseError ? error.code : undefined)

function outcome(removal: RemovalJson, options: Options): string {
  const { name, removed_at, lost_at, removed_before, lost } = removal
  const [ended, at] = options.lost ? ['declared lost', lost_at] : ['removed', removed_at]
  if (removed_before && lost === 0) return `${name} was ${ended} before, at ${at}; nothing was changed`
  return `${name} is ${ended}; ${lossOf(removal)}`
}

/** Names what would be lost, and how to confirm it. */
function unconfirmed({ name, lost, desktops }: RemovalJson, exitCode: number, code: string): CliError {
  const costs = lost === 0 ? 'cannot be undone' : `destroys the data of ${counted(lost)} for good`
  return new CliError(`removing ${name} ${costs}`, `to confirm, add --yes-lose ${lost}`, exitCode, {
    code,
    lost,
    desktops,
  })
}

/** How many desktops a person has agreed to lose. */
async function confirmed({ terminal }: Needs, removal: RemovalJson, options: Options): Promise<number> {
  const { name, lost } = removal
  // It has ended already: the service reports that and changes nothing.
  if ((options.lost ? removal.lost_at : removal.removed_at) && lost === 0) return 0
  if (!options.json && lost > 0) terminal.note(desktopsTable(removal.desktops).trimEnd())
  if (options.json || !terminal.interactive) throw unconfirmed(removal, exitCodes.usage, 'not_confirmed')
  const warning = options.lost
    ? 'They fail, and their owners lose them unless the host comes back.'
    : 'Removing it cannot be undone.'
  terminal.note(`${name} has the only disk of ${counted(lost)}. ${warning}`)
  if ((await terminal.ask('Type its name to remove it: ')).trim() === name) return lost
  throw new CliError('nothing was removed', `run it again and type ${name}`, exitCodes.usage)
}

const counted = (count: number): string => (count === 1 ? '1 desktop' : `${count} desktops`)

const lossOf = ({ lost }: RemovalJson): string =>
  lost === 0 ? 'no desktop was lost' : `${counted(lost)} failed; inform their owners`

function desktopsTable(desktops: RemovalJson['desktops']): string {
  if (desktops.length === 0) return ''
  return table(
    ['DESKTOP', 'ORGANISATION'],
    desktops.map(({ id, org_id }) => [id, org_id]),
  )
}
