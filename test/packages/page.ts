// The commands of a page, as its readers run them.
import { readFileSync } from 'node:fs'

export interface Block {
  /** The word behind `sh`: the machine, or `every`. Commands without one are not run. */
  machine: string
  /** The heading above it. */
  heading: string
  commands: string
}

export function blocksOf(file: string): Block[] {
  const parts = readFileSync(file, 'utf8').split(/^## /m)
  return parts.flatMap((part) => {
    const heading = part.split('\n', 1)[0]!
    return [...part.matchAll(/^```sh (\S+)\n(.*?)^```$/gms)].map(([, machine, commands]) => ({
      machine: machine!,
      heading,
      commands: commands!,
    }))
  })
}

/** One for each line, without what a command reads from the page. */
export function commandsOf({ commands }: Block): string[] {
  return commands
    .replace(/(<<'?END'?[^\n]*)\n.*?^END$/gms, '$1')
    .trim()
    .split('\n')
}
