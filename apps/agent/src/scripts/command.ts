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

function becomeScript(request: ExecCommand, nonce: string): string {
  const input = request.stdin === null ? ' </dev/null' : ''
  return `${refuseFunction(nonce)}
${unsetSsh}${enterFolder(request)}set -- ${argvOf(request.command)}
${mustBeProgram(request)}exec ${launcherOf(request)}"$@"${input}
`
}

/** `no REASON` ends the script; `exec-result.ts` turns it into a refusal. */
export const refuseFunction = (nonce: string): string =>
  `no() { printf '${notRunPrefix(nonce)}%s' "$1" >&2; exit ${notRunCode}; }`

/** With these, each bash of the command would act as a login shell and print its greeting. */
const unsetSsh = 'unset SSH_CLIENT SSH_CONNECTION SSH_TTY SHLVL\n'

export const argvOf = (command: ExecCommand['command']): string =>
  (Array.isArray(command) ? command : ['/bin/sh', '-c', command]).map(quote).join(' ')

/** Changes to the command's folder, by its path alone: `-`, and folders named in CDPATH, mean something else to a shell. */
export function enterFolder({ cwd }: Pick<ExecCommand, 'cwd'>): string {
  if (cwd === null) return ''
  const path = quote(cwd.startsWith('/') ? cwd : `./${cwd}`)
  return `cd -- ${path} 2>/dev/null || { [ -e ${path} ] && no file; no folder; }\n`
}

/**
 * What a script puts before the program and its arguments, so that exactly these are executed. Variables are not set by the
 * shell's own `export`: some names are read-only in a shell.
 */
export function launcherOf({ command, env }: Pick<ExecCommand, 'command' | 'env'>): string {
  const settings = Object.entries(env).map(([name, value]) => `${quote(`${name}=${value}`)} `)
  const program = Array.isArray(command) ? command[0]! : ''
  if (settings.length === 0) return program.startsWith('-') ? 'env -- ' : ''
  // `env` would take such a program for a variable.
  const apart = program.includes('=') ? `/bin/sh -c 'exec "$@"' sh ` : ''
  return `env -- ${settings.join('')}${apart}`
}

/**
 * Refuses unless the program is a file that can be executed, looked up as the system does: in the PATH that the command gets;
 * an empty part is the current folder. A shell's own commands are no programs. BusyBox would run its own `ls` rather than one
 * that it finds, so it gets the path.
 */
export function mustBeProgram({ command, env }: Pick<ExecCommand, 'command' | 'env'>): string {
  if (!Array.isArray(command)) return ''
  const path = env.PATH === undefined ? '$PATH' : quote(env.PATH)
  return `case $1 in
  */*) [ -f "$1" ] || no program; [ -x "$1" ] || no permission;;
  *) dormouse_path=${path} dormouse_why=program
  while :; do
    dormouse_in=\${dormouse_path%%:*}
    [ -f "\${dormouse_in:-.}/$1" ] && { [ -x "\${dormouse_in:-.}/$1" ] && break; dormouse_why=permission; }
    case $dormouse_path in *:*) dormouse_path=\${dormouse_path#*:};; *) no $dormouse_why;; esac
  done
  ! PATH= command -v busybox >/dev/null 2>&1 || { dormouse_in=\${dormouse_in:-.}/$1; shift; set -- "$dormouse_in" "$@"; };;
esac
`
}

/** A guest that runs out of memory ends the command, not the server that runs it. */
export const expendable = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null\n'
