// What the last word of a command line may become, by the table of commands that `--help` prints, and by what the service has.
import type { Argument, Command, Option } from 'commander'
import type { Context } from './context.ts'
import { profileNames } from './profiles.ts'

export interface Candidate {
  word: string
  what?: string
}

/** The candidate in place of names of files, which shells know better. */
export const fileNames = ':files'

/** Whoever presses Tab waits no longer than this for the service. */
const serviceMs = 1_500

/** Where the words of a line have arrived in the table. */
interface Place {
  command: Command
  /** What came in place of arguments. */
  operands: string[]
  /** The option whose value is next. */
  pending?: Option
  /** No option may follow. */
  isLiteral: boolean
}

/** All that the last word may become; nothing if the service does not answer in time. */
export async function candidatesFor(program: Command, context: Context, words: string[]): Promise<Candidate[]> {
  const current = words.at(-1) ?? ''
  const place = walk(program, context, words.slice(0, -1))
  return (await expected(place, program, context, current)).filter(
    ({ word }) => word === fileNames || word.startsWith(current),
  )
}

function walk(program: Command, context: Context, words: string[]): Place {
  const place: Place = { command: program, operands: [], isLiteral: false }
  for (const word of words) {
    if (place.pending) takeValue(place, context, word)
    else if (place.isLiteral) place.operands.push(word)
    else if (word === '--') place.isLiteral = true
    else if (word.startsWith('-') && word !== '-') takeOption(place, program, context, word)
    else takeOperand(place, word)
  }
  return place
}

function takeValue(place: Place, context: Context, word: string): void {
  if (place.pending?.long === '--profile') context.profile = word
  place.pending = undefined
}

function takeOption(place: Place, program: Command, context: Context, word: string): void {
  const [flag, value] = word.split('=', 2) as [string, string | undefined]
  place.pending = optionsOf(place.command, program).find(
    ({ long, short, required, optional }) => (long === flag || short === flag) && (required || optional),
  )
  if (value !== undefined) takeValue(place, context, value)
}

function takeOperand(place: Place, word: string): void {
  const below = place.command.commands.find((each) => each.name() === word)
  if (below && place.operands.length === 0) place.command = below
  else place.operands.push(word)
}

const optionsOf = (command: Command, program: Command): readonly Option[] => {
  const own = command.createHelp().visibleOptions(command)
  return command === program ? own : [...own, ...program.options.filter(({ long }) => long === '--profile')]
}

async function expected(place: Place, program: Command, context: Context, current: string): Promise<Candidate[]> {
  const { command, operands, pending, isLiteral } = place
  const values = (taker: Argument | Option) => valuesOf(taker, context, operands, current)
  if (pending) return values(pending)
  const options = isLiteral ? [] : optionsOf(command, program)
  const [, flag] = /^(--[\w-]+)=/.exec(current) ?? []
  if (flag !== undefined) {
    const option = options.find(({ long }) => long === flag)
    return (option ? await values(option) : []).map((one) => ({ ...one, word: `${flag}=${one.word}` }))
  }
  if (current.startsWith('-') && !isLiteral)
    return options.map(({ long, short, description }) => ({ word: long ?? short!, what: description }))
  if (command.commands.length > 0 && operands.length === 0)
    return command
      .createHelp()
      .visibleCommands(command)
      .map((each) => ({ word: each.name(), what: each.description() }))
  const { registeredArguments: given } = command
  const argument = given[operands.length] ?? (given.at(-1)?.variadic ? given.at(-1) : undefined)
  return argument ? values(argument) : []
}

/** By its choices, or by the kind of thing that its description or its name says. */
async function valuesOf(
  taker: Argument | Option,
  context: Context,
  operands: string[],
  current: string,
): Promise<Candidate[]> {
  if (taker.argChoices) return taker.argChoices.map((word) => ({ word }))
  const { description } = taker
  const [name, attribute] =
    'flags' in taker ? [/<([\w-]+)/.exec(taker.flags)?.[1] ?? '', taker.attributeName()] : [taker.name(), '']
  const isPath = description.includes('<id>:<path>')
  const kind = isPath ? 'desktop' : [description, attribute, name].find((one) => Object.hasOwn(sources, one))
  const found = kind === undefined ? [] : await ask(context, sources[kind]!, operands)
  const words = isPath ? found.map((one) => ({ ...one, word: `${one.word}:` })) : found
  const isFile = name === 'file' || (description.includes('local file') && !current.includes(':'))
  return isFile ? [...words, { word: fileNames }] : words
}

type Source = (context: Context, call: { signal: AbortSignal }, operands: string[]) => Promise<Candidate[]>

/** A service that is unreachable or slow has nothing to offer: an error would be in the middle of the line. */
async function ask(context: Context, source: Source, operands: string[] = []): Promise<Candidate[]> {
  const signal = AbortSignal.any([context.terminal.signal, AbortSignal.timeout(serviceMs)])
  try {
    return await source(context, { signal }, operands)
  } catch {
    return []
  }
}

const desktops: Source = async (context, call) =>
  (await context.customer().listDesktops({ limit: 200 }, call)).desktops.map((one) => ({
    word: one.id,
    what: `${one.state}, ${one.tier}, ${one.image_version}`,
  }))

const orgs: Source = async (context, call) =>
  (await context.operator().listOrgs(call)).orgs.map(({ id, name }) => ({ word: id, what: name }))

/** By name, if a shell takes it as one word. */
const hosts: Source = async (context, call) =>
  (await context.operator().listHosts(call)).hosts.map(({ id, name, state }) =>
    /^[\w.@-]+$/.test(name) ? { word: name, what: state } : { word: id, what: `${name}, ${state}` },
  )

/** What arguments and options are described or called, and where their values are from. */
const sources: Record<string, Source> = {
  desktop: desktops,
  organisation: orgs,
  host: hosts,
  'name or id': hosts,
  image: async (context, call) =>
    (await context.customer().listImages(call)).images.map((one) => ({ word: one.image_version })),
  'a registered version': async (context, call) =>
    (await context.operator().listImages(call)).images.map(({ name, version }) => ({ word: `${name}@${version}` })),
  webhook: async (context, call) =>
    (await context.customer().webhooks.list(call)).webhooks.map(({ id, url }) => ({ word: id, what: url })),
  exec: async (context, call, [id]) =>
    (await context.customer().execs.list(id!, call)).execs.map(({ id: word, command }) => ({ word, what: command })),
  profile: async ({ env }) => profileNames(env).map((word) => ({ word })),
}
