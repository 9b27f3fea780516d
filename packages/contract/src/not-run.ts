// Why a guest did not start a command, in sentences that name its program or folder. The host reports one of them; the control
// plane passes on only those that it can make itself from the same command. Pure.

import type { ExecCommand } from './commands.ts'

type Named = Pick<ExecCommand, 'command' | 'cwd'>

const shownLength = 200
/** A plain sentence, as the guest's own shell adds it. */
const plainWords = /^[\p{L}\p{N} ,.'’()-]{1,200}$/u

const shown = (name: string): string =>
  JSON.stringify(name.length > shownLength ? `${name.slice(0, shownLength).toWellFormed()}…` : name)

const programOf = ({ command }: Named): string => shown(Array.isArray(command) ? command[0]! : '/bin/sh')

/** From the word to its reason. The word comes from a guest, which may send any. */
function reasonsFor(named: Named): ReadonlyMap<string, string> {
  const program = programOf(named)
  const folder = shown(named.cwd ?? '')
  return new Map(
    Object.entries({
      program: `the guest has no program ${program}; check its name, and PATH`,
      absent: `the guest has no program ${program}, or lacks its interpreter; check its name, and PATH`,
      size: `the arguments and variables of ${program} are too long for the guest; shorten them`,
      permission: `the guest cannot execute ${program}; make it executable`,
      folder: `the guest has no folder ${folder} to run the command in; check \`cwd\``,
      file: `${folder} is not a folder in which the guest can run a command; check \`cwd\``,
      space: 'the guest has no space for the command’s output; free some',
      input: 'the guest has no space for the command’s input; free some',
    }),
  )
}

export const couldNotStart = (named: Named): string => `the guest could not start ${programOf(named)}`

/** The sentence for the word that a script or the supervisor in the guest prints. */
export const notRunReason = (word: string, named: Named): string => reasonsFor(named).get(word) ?? couldNotStart(named)

/** Whether these words of a host are such a sentence about this command. */
export function isNotRunReason(words: string, named: Named): boolean {
  const start = couldNotStart(named)
  const isQuoted = words.startsWith(`${start}: `) && plainWords.test(words.slice(start.length + 2))
  return isQuoted || words === start || [...reasonsFor(named).values()].includes(words)
}
