// Manual pages, made from what the programs themselves say.
import { createContext } from '../../apps/cli/src/context.ts'
import { createProgram } from '../../apps/cli/src/program.ts'
import { openTerminal } from '../../apps/cli/src/terminal.ts'

type Command = ReturnType<typeof createProgram>

/** The page of a program that has one text of help. */
export const manualOf = (name: string, section: number, help: string): string =>
  `${head(name, section, help.split('\n')[0]!.split(/ {2,}/)[1]!)}${heading('COMMANDS')}${verbatim(help)}`

/** The page of the command line, with a section for each command. */
export function manualOfCommands(): string {
  const terminal = openTerminal({ signal: new AbortController().signal, takeSignals: () => () => undefined })
  const program = createProgram(createContext(terminal, {}, []))
  return `${head(program.name(), 1, program.description())}${heading('DESCRIPTION')}${verbatim(program.helpInformation())}${sections(program, '')}`
}

function sections(command: Pick<Command, 'commands'>, path: string): string {
  return command.commands
    .map((each) => {
      const name = `${path}${each.name()}`
      return `${heading(name)}${verbatim(each.helpInformation())}${sections(each, `${name} `)}`
    })
    .join('')
}

const head = (name: string, section: number, what: string): string =>
  `.TH ${name.toUpperCase()} ${section}\n${heading('NAME')}${escaped(`${name} - ${what}`)}\n`
const heading = (text: string): string => `.SH "${escaped(text)}"\n`
const verbatim = (text: string): string => `.nf\n${escaped(text.trimEnd())}\n.fi\n`
const escaped = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/^(?=[.'])/gm, '\\&')
