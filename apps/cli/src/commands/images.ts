// admin image: what images are called, which version a name means, and where hosts fetch them.
import { isAbsolute } from 'node:path'
import type { ImageJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

type AddOptions = JsonOption & { from: string; digest?: string; prefetch?: boolean }
type Needs = Pick<Context, 'operator' | 'show' | 'terminal'>

/** Adds the commands. */
export function addImages(command: Command, context: Needs): void {
  const { operator, show, terminal } = context
  const { signal } = terminal
  withJson(command.command('add'), 'dormouse admin image add mini@3f0c5a --from https://images.example.com/mini@3f0c5a')
    .description('register a version of an image, which hosts then fetch when they need it')
    .argument('<name@version>', 'as in its manifest')
    .requiredOption('--from <url or folder>', 'URL of the version’s folder on a web server, or its path on the hosts')
    .option('--digest <sha256>', 'refuse the image unless its manifest.json has this SHA-256')
    .option('--prefetch', 'let all hosts fetch it now, not at the first wake that needs it, and make a template of it')
    .action((image: string, options: AddOptions) => add(context, image, options))
  withJson(command.command('list'), 'dormouse admin image list')
    .description('list registered images, and which hosts have them')
    .action(async (options: JsonOption) => {
      const found = await operator().listImages({ signal })
      show(options, found, () => (found.images.length ? table(columns, found.images.map(row)) : ''))
      if (found.images.length === 0 && !options.json)
        terminal.note('No image is registered; hosts use their own folders.')
      for (const why of failuresOf(found.images)) if (!options.json) terminal.note(why)
    })
  withJson(command.command('use'), 'dormouse admin image use mini@3f0c5a')
    .description('let the name alone mean this version; desktops that exist keep theirs')
    .argument('<name@version>', 'a registered version')
    .action(async (image: string, options: JsonOption) => {
      const used = await operator().useImage(image, { signal })
      show(options, used, () => `${used.name} means ${used.version} from now on\n`)
    })
  withJson(command.command('retire'), 'dormouse admin image retire mini@3f0c5a')
    .description('make no new desktop from this version; desktops that exist keep it')
    .argument('<name@version>', 'a registered version')
    .action(async (image: string, options: JsonOption) => {
      const retired = await operator().retireImage(image, { signal })
      show(options, retired, () => `${fullName(retired)} is retired\n`)
    })
}

async function add({ operator, show, terminal }: Needs, image: string, options: AddOptions): Promise<void> {
  const [name, version, ...more] = image.split('@')
  if (!name || !version || more.length > 0) {
    throw new CliError(
      `"${image}" is not a name and a version`,
      'write name@version, such as mini@3f0c5a',
      exitCodes.usage,
    )
  }
  const { from, digest, prefetch } = options
  if (!isAbsolute(from) && !/^https?:\/\//.test(from)) {
    throw new CliError(
      `--from ${from} is neither a URL nor an absolute path`,
      'the path is one on the hosts',
      exitCodes.usage,
    )
  }
  const body = { name, version, from, ...(digest && { digest }), ...(prefetch && { prefetch }) }
  const added = await operator().addImage(body, { signal: terminal.signal })
  show(options, added, () => `${fullName(added)} is registered, with the digest ${added.digest}\n`)
  if (!added.in_use && !options.json)
    terminal.note(`To let the name ${name} mean this version: dormouse admin image use ${fullName(added)}`)
}

const fullName = ({ name, version }: ImageJson): string => `${name}@${version}`

const columns = ['IMAGE', 'USED', 'MIB', 'HOSTS', 'TEMPLATES', 'FETCHING', 'FAILED', 'RETIRED', 'FROM']

function row(image: ImageJson): (string | number | null)[] {
  const count = (...states: string[]) => image.hosts.filter(({ state }) => states.includes(state)).length
  return [
    fullName(image),
    image.in_use ? 'yes' : 'no',
    Math.ceil(image.bytes / 2 ** 20),
    `${count('present')}/${image.hosts.length}`,
    image.hosts.reduce((sum, { templates = 0 }) => sum + templates, 0),
    count('fetching', 'waiting'),
    count('failed'),
    image.retired_at,
    image.from,
  ]
}

function failuresOf(images: ImageJson[]): string[] {
  return images.flatMap((image) =>
    image.hosts
      .filter(({ state }) => state === 'failed')
      .map(({ host_name, error }) => `${host_name} could not fetch ${fullName(image)}: ${error}`),
  )
}
