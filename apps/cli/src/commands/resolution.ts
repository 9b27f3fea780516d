// resolution: changes the size of a desktop's screen.
import { type Resolution, setResolution } from '@dormouse/client'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, withJson } from '../options.ts'

/** Adds the command. */
export function addResolution(program: Command, context: Context): void {
  withJson(program.command('resolution'), 'dormouse resolution 019a9f00-0000-7000-8000-000000000001 1920x1080')
    .description('change the size of an awake desktop’s screen')
    .argument('<id>', 'desktop')
    .argument('<size>', 'width x height in pixels, such as 1920x1080', sizeOf)
    .action((desktop: string, size: Resolution, options: JsonOption) => resolution(context, desktop, size, options))
}

function sizeOf(text: string): Resolution {
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(text) ?? []
  if (!width || !height) throw new InvalidArgumentError('It must be <width>x<height>, such as 1920x1080.')
  return { width: Number(width), height: Number(height) }
}

async function resolution(context: Context, desktop: string, size: Resolution, options: JsonOption): Promise<void> {
  context.about.id = desktop
  const { signal } = context.terminal
  const now = await setResolution(context.customer(), desktop, size, { signal })
  context.show(options, now, () => `${now.width}x${now.height}\n`)
}
