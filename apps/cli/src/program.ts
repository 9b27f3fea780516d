// All commands of the CLI.
import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { addAdmin } from './commands/admin.ts'
import { addBulk } from './commands/bulk.ts'
import { addClipboard } from './commands/clipboard.ts'
import { addCompletion } from './commands/completion.ts'
import { addCopies } from './commands/copies.ts'
import { addCp } from './commands/cp.ts'
import { addDesktops } from './commands/desktops.ts'
import { addEvents } from './commands/events.ts'
import { addExec } from './commands/exec.ts'
import { addExecs } from './commands/execs.ts'
import { addIdle } from './commands/idle.ts'
import { addInput } from './commands/input.ts'
import { addKeys } from './commands/keys.ts'
import { addLogin } from './commands/login.ts'
import { addLs } from './commands/ls.ts'
import { addMcp } from './commands/mcp.ts'
import { addOffers } from './commands/offers.ts'
import { addOperations } from './commands/operations.ts'
import { addOwnQuotas } from './commands/quotas.ts'
import { addResolution } from './commands/resolution.ts'
import { addScreens } from './commands/screens.ts'
import { addShell } from './commands/shell.ts'
import { addTop } from './commands/top.ts'
import { addTransitions } from './commands/transitions.ts'
import { addUrl } from './commands/url.ts'
import { addUsage } from './commands/usage.ts'
import { addWatch } from './commands/watch.ts'
import { addWebhooks } from './commands/webhooks.ts'
import type { Context } from './context.ts'
import { nameToId } from './named-desktops.ts'
import { addWakeOptions, wakeWishOf } from './wake-option.ts'

const help = `
Example:
  dormouse create --tier small --wake
  dormouse exec <id> -- uname -a
  dormouse cp notes.txt <id>:/srv/notes.txt
  dormouse hibernate <id>

Environment:
  DORMOUSE_URL           address of the service
  DORMOUSE_API_KEY       your API key
  DORMOUSE_OPERATOR_KEY  operator key, for admin commands
  DORMOUSE_PROFILE       profile to use; see \`dormouse login --help\`
  DORMOUSE_DATA          folder of a local service; its local.json has address and keys
  NODE_EXTRA_CA_CERTS    file with the certificate of a CA of your own; the trust store of this machine counts, too
Without them, dormouse uses the profile that \`dormouse login\` has kept, or the nearest .dormouse/local.json, which
\`npm start\` writes.

With --json, a failure is one line of JSON on stderr. It always has "message"; where they are known, it has "code",
"status", "operation_id", "cause_code", "field", "right", "state", "claim", "holder", "since", "human_active", "oldest_cursor", "desktop_id" and "next_step". Usage errors are plain text.

Exit codes:
  0  success           5  the operation failed           10  the drain was cancelled
  1  failed            6  service unavailable            124  exec: output was dropped
  2  wrong usage       7  missing or invalid credential  125  exec: dormouse itself failed
  3  not found         8  timed out waiting              130  Ctrl-C
  4  conflict          9  desktops block the drain       141  the output's reader has gone
                                                         143  SIGTERM`

/** The whole program; throws instead of ending the process. */
export function createProgram(context: Context): Command {
  const program = new Command('dormouse')
    .description('Create, wake, hibernate and use remote desktops.')
    .version(about.version)
    .option('--profile <name>', 'use this profile, in place of the environment')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.terminal.write(text),
      writeErr: (text) => context.terminal.note(text.replace(/\n$/, '')),
    })
    .configureHelp({ showGlobalOptions: false })
    .addHelpText('after', help)
  program.hook('preAction', async (_, command) => {
    context.profile = program.opts().profile
    context.wake = wakeWishOf(program, command)
    context.about.verb = command.name()
    context.about.group = command.parent?.name()
    context.about.command = pathOf(command)
    context.about.json = command.opts().json === true
    // With --json, nothing but a failure is on stderr.
    if (!context.about.json) for (const sentence of context.warnings) context.terminal.note(`warning: ${sentence}`)
    await nameToId(context, command)
  })
  addDesktops(program, context)
  addOffers(program, context)
  addOwnQuotas(program, context)
  addTransitions(program, context)
  addBulk(program, context)
  addExec(program, context)
  addExecs(program, context)
  addShell(program, context)
  addCp(program, context)
  addLs(program, context)
  addUrl(program, context)
  addWatch(program, context)
  addScreens(program, context)
  addInput(program, context)
  addResolution(program, context)
  addClipboard(program, context)
  addOperations(program, context)
  addEvents(program, context)
  addIdle(program, context)
  addCopies(program, context)
  addUsage(program, context)
  addTop(program, context)
  addWebhooks(program, context)
  addKeys(program, context)
  addMcp(program, context)
  addLogin(program, context)
  addAdmin(program, context)
  addCompletion(program, context)
  addWakeOptions(program)
  nameHelp(program)
  return program
}

/** A usage error names the help of the very command. */
function nameHelp(command: Command): void {
  const shows = command.commands.length > 0 ? 'lists the commands' : 'shows what it takes'
  command.showHelpAfterError(
    `Next step: \`${['dormouse', pathOf(command), '--help'].filter(Boolean).join(' ')}\` ${shows}`,
  )
  // `exec` has words of its own.
  for (const each of command.commands) if (each.name() !== 'exec') nameHelp(each)
}

/** Such as `admin host list`; empty for the program itself. */
const pathOf = (command: Command): string =>
  command.parent ? [pathOf(command.parent), command.name()].filter(Boolean).join(' ') : ''
