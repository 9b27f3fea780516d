// The options of the commands that need an awake desktop, to wake it or not.
import type { WakeWish } from '@dormouse/client'
import type { Command } from 'commander'

const paths = [
  ...['exec', 'start', 'execs', 'logs', 'signal', 'shell', 'attach', 'cp', 'ls', 'watch', 'open', 'screenshot'],
  ...['screen', 'input', 'resolution', 'clipboard get', 'clipboard set'],
]

const found = (program: Command, path: string): Command =>
  path.split(' ').reduce((parent, name) => parent.commands.find((each) => each.name() === name)!, program)

/** Adds them. */
export function addWakeOptions(program: Command): void {
  for (const path of paths)
    found(program, path)
      .option('--wake', 'wake the desktop first, if it is asleep')
      .option('--no-wake', 'do not, also if its --wake-on has this kind of command')
}

/** What the command's line says; undefined: the desktop's own `wake_on` decides. */
export function wakeWishOf(program: Command, command: Command): WakeWish | undefined {
  const { wake } = command.opts<{ wake?: boolean }>()
  if (wake === undefined || !paths.some((path) => found(program, path) === command)) return undefined
  return wake ? 'allow' : 'never'
}
