// The command line's table of contents. Decides nothing.
import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { addAdmin } from './commands/admin.ts'
import { addCp } from './commands/cp.ts'
import { addDesktops } from './commands/desktops.ts'
import { addExec } from './commands/exec.ts'
import { addOperations } from './commands/operations.ts'
import { addScreens } from './commands/screens.ts'
import { addTransitions } from './commands/transitions.ts'
import type { Context } from './context.ts'

const help = `
Example:
  dormouse create --tier small --wake
  dormouse exec <id> -- uname -a
  dormouse cp notes.txt <id>:/srv/notes.txt
  dormouse hibernate <id>

The service: DORMOUSE_URL, DORMOUSE_API_KEY and (for admin) DORMOUSE_OPERATOR_KEY; else local.json in DORMOUSE_DATA,
or the nearest .dormouse/local.json, which \`npm start\` writes.

With --json a failure is one line of JSON on stderr: {"code", "message", "status", "operation_id", "next_step"}, each
where it is known; \`message\` always is. Wrong usage is said in words.

Exit codes:
  0  done              4  refused: state, generation      8  stopped waiting: out of time
  1  failed            5  the operation failed            125  exec: any failure of ours
  2  usage             6  service not reached             130  Ctrl-C
  3  not found         7  credential missing or refused   143  ended by SIGTERM`

/** The whole program; throws instead of ending the process. */
export function createProgram(context: Context): Command {
  const program = new Command('dormouse')
    .description('Desktops that sleep and wake.')
    .version(about.version)
    .exitOverride()
    .showHelpAfterError('Next step: --help after the command shows how it is used.')
    .configureHelp({ showGlobalOptions: false })
    .addHelpText('after', help)
  program.hook('preAction', (_, command) => {
    context.about.verb = command.name()
    context.about.group = command.parent?.name()
    context.about.json = command.opts().json === true
  })
  addDesktops(program, context)
  addTransitions(program, context)
  addExec(program, context)
  addCp(program, context)
  addScreens(program, context)
  addOperations(program, context)
  addAdmin(program, context)
  return program
}
