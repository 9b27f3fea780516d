// Desktops by name: whatever a command takes as a desktop may be its id, its name, or a unique part of its id.
import { idOfDesktop } from '@dormouse/client'
import type { Argument, Command } from 'commander'
import type { Context } from './context.ts'

/** Replaces the names in the command's arguments and in `--desktop` by ids. Operators' commands take ids alone. */
export async function nameToId(context: Context, command: Command): Promise<void> {
  if (isForOperators(command)) return
  const resolve = async (word: string) => {
    context.about.id = word
    return idOfDesktop(context.customer(), word, { signal: context.terminal.signal })
  }
  for (const [at, argument] of command.registeredArguments.entries()) {
    const given: unknown = command.processedArgs[at]
    if (typeof given === 'string') command.processedArgs[at] = await resolved(argument, given, resolve)
  }
  const { desktop } = command.opts<{ desktop?: string }>()
  if (desktop !== undefined) command.setOptionValue('desktop', await resolve(desktop))
}

async function resolved(
  { description, required }: Argument,
  given: string,
  resolve: (word: string) => Promise<string>,
): Promise<string> {
  if (description === 'desktop') return resolve(given)
  if (!description.includes('<id>:<path>')) return given
  const colon = given.indexOf(':')
  if (colon < 0) return required && description.includes('local') ? given : resolve(given)
  const word = given.slice(0, colon)
  // A local file: a desktop has no slash in its name.
  return word === '' || word.includes('/') ? given : `${await resolve(word)}${given.slice(colon)}`
}

const isForOperators = (command: Command | null): boolean =>
  command !== null && (command.name() === 'admin' || isForOperators(command.parent))
