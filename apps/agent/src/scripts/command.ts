// The shell scripts that run a command over SSH, and what they share with those for the guest agent: pure text. Over SSH
// both streams are carried as they come, so the script becomes the command itself.
import type { ExecCommand } from '@dormouse/contract'
import { quote } from './quote.ts'

/** Exit code and first line on stderr of a script that could not start its command. */
export const notRunCode = 97
export const notRunPrefix = (nonce: string): string => `dormouse-${nonce} not-run `

/** Runs a command in the session that the server made for it. */
export const plainScript = (command: ExecCommand, nonce: string): string => expendable + becomeScript(command, nonce)

/** A shell that is started before it is needed. It reads its command from stdin, and holds no folder meanwhile. */
export const warmShellScript = (): string => `${expendable}cd /\nexec /bin/sh`

/** A warm shell's command: it changes to the folder in which a shell starts, then becomes the command. */
export const warmShellCommand = (command: ExecCommand, nonce: string): string =>
  `cd -- "$HOME" 2>/dev/null || cd /\n${becomeScript(command, nonce)}`

function becomeScript({ command, cwd, env, stdin }: ExecCommand, nonce: string): string {
  return `${refuseFunction(nonce)}
${unsetSsh}${cwd === null ? '' : `cd -- ${quote(cwd)} 2>/dev/null || no folder\n`}set -- ${argvOf(command)}
${Array.isArray(command) ? `${mustBeProgram}\n` : ''}exec ${withVariables(env)}"$@"${stdin === null ? ' </dev/null' : ''}
`
}

/** `no REASON` ends the script; `exec-result.ts` turns it into a refusal. */
export const refuseFunction = (nonce: string): string =>
  `no() { printf '${notRunPrefix(nonce)}%s' "$1" >&2; exit ${notRunCode}; }`

/** With these, each bash of the command would act as a login shell and print its greeting. */
const unsetSsh = 'unset SSH_CLIENT SSH_CONNECTION SSH_TTY SHLVL\n'

export const argvOf = (command: ExecCommand['command']): string =>
  (Array.isArray(command) ? command : ['/bin/sh', '-c', command]).map(quote).join(' ')

/** Not the shell's own `export`: some names are read-only in a shell. */
export function withVariables(env: ExecCommand['env']): string {
  const settings = Object.entries(env).map(([name, value]) => quote(`${name}=${value}`))
  return settings.length > 0 ? `env ${settings.join(' ')} ` : ''
}

/** Shells differ in what they accept as a command: a path must be an executable file. */
export const mustBeProgram = `case $1 in
  */*) [ -f "$1" ] && [ -x "$1" ] || no program;;
  *) command -v -- "$1" >/dev/null 2>&1 || no program;;
esac`

/** A guest that runs out of memory ends the command, not the server that runs it. */
export const expendable = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null\n'
