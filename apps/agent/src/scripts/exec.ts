// The shell script that runs a command inside a guest: pure text. It becomes the command itself, so that the guest agent
// sees the command's own end; beside it a collector keeps a bounded part of the output and hands it over at that end.
import { type ExecCommand, execOutputMaxBytes } from '@dormouse/contract'

/** Exit code and first word of a command that was never begun. */
export const notRunCode = 97
export const notRunWord = (nonce: string): string => `dormouse-${nonce} not-run `
/** Last line of the collector: which of the two streams it had to cut. */
export const trailerWord = (nonce: string): string => `\ndormouse-${nonce} kept `

const blockBytes = 512
/** One block more than is kept, so that a longer output shows. */
const keptBlocks = execOutputMaxBytes / blockBytes + 1
const stepSecs = 0.25
/** After its command's end a busy guest takes a while to hand over what was said. */
const lateSecs = 0.5
/** After its deadline the guest ends the command by itself, where nobody has asked any more. */
const graceSecs = 30

/** Where the pieces of one command lie in the guest; gone with its end. */
const pieces = (nonce: string): string => `[ -w /run ] && p=/run/.dormouse-${nonce} || p=/tmp/.dormouse-${nonce}`

/**
 * The script, for any POSIX shell with the usual small tools; every process it starts is time, so there are few.
 *
 * The two streams go through named pipes into files of bounded size; what exceeds them is read and dropped, so that the
 * command never blocks and never fills the guest's memory. The collector waits for the pipes' ends. When the command is
 * over, a child of it may still hold them: then a watcher (`watchScript`) tells the collector to wait no longer, and the
 * readers stay as long as that child.
 */
export function execScript(command: ExecCommand, nonce: string, inputFile: string | undefined): string {
  const { command: words, cwd, env } = command
  const check = Array.isArray(words) ? `${mustBeProgram}\n` : ''
  return `export PATH="\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}" HOME="\${HOME:-/root}"
${pieces(nonce)}
no() { printf '${notRunWord(nonce)}%s' "$1" >&2; exit ${notRunCode}; }
${inputFile ? `exec <${inputFile} || no input\nrm -f ${inputFile}\n` : ''}cd -- "$HOME" 2>/dev/null || cd /
${cwd === null ? '' : `cd -- ${quote(cwd)} 2>/dev/null || no folder\n`}set -- ${argvOf(words)}
${check}mkfifo -m 600 $p.1 $p.2 || no space
exec 3<&0
keep() { umask 077; exec <$p.$1 >/dev/null 2>&1; (ulimit -f ${keptBlocks}; exec cat >$p.$2) || { cat; exit 1; }; }
(
  exec 3<&- </dev/null
  late= cut=
  trap late=1 USR1
  keep 1 o & a=$!
  keep 2 e & b=$!
  wait $a || [ "$late" ] || cut=o
  [ "$late" ] || wait $b || [ "$late" ] || cut=\${cut}e
  [ -s $p.o ] && head -c ${execOutputMaxBytes + 1} $p.o
  [ -s $p.e ] && head -c ${execOutputMaxBytes + 1} $p.e >&2
  printf '${trailerWord(nonce).replace('\n', '\\n')}%s' "$cut" >&2
  exec >/dev/null 2>&1 rm -f $p.1 $p.2 $p.o $p.e $p.c
) & echo $! >$p.c
${expendable}exec setsid ${withSettings(env)}"$@" <&3 3<&- >$p.1 2>$p.2
`
}

/** Before a script's process, in the first line that it says on each of its streams. */
export const announced = (nonce: string): string => `dormouse-${nonce} began `

/** Tells the script's words from those of the shell that runs it. */
export const announce = (script: string, nonce: string): string =>
  `echo "${announced(nonce)}$$"; echo "${announced(nonce)}$$" >&2\n${script}`

/** The script where both streams are carried away as they come: becomes the command, in the session that it was given. */
export const plainScript = (command: ExecCommand, nonce: string): string => expendable + becomeScript(command, nonce)

/** A shell that waits to be told what to become; it holds no folder meanwhile. */
export const spareScript = (): string => `${expendable}cd /\nexec /bin/sh`

/** What it is told: first to go where a shell begins. */
export const wokenScript = (command: ExecCommand, nonce: string): string =>
  `cd -- "$HOME" 2>/dev/null || cd /\n${becomeScript(command, nonce)}`

function becomeScript({ command: words, cwd, env, stdin }: ExecCommand, nonce: string): string {
  return `no() { printf '${notRunWord(nonce)}%s' "$1" >&2; exit ${notRunCode}; }
${unsetOfSsh}${cwd === null ? '' : `cd -- ${quote(cwd)} 2>/dev/null || no folder\n`}set -- ${argvOf(words)}
${Array.isArray(words) ? `${mustBeProgram}\n` : ''}exec ${withSettings(env)}"$@"${stdin === null ? ' </dev/null' : ''}
`
}

/** How it came here is no matter of the command’s; by these, each bash in it would take itself for a login’s and greet. */
const unsetOfSsh = 'unset SSH_CLIENT SSH_CONNECTION SSH_TTY SHLVL\n'

const argvOf = (words: ExecCommand['command']): string =>
  (Array.isArray(words) ? words : ['/bin/sh', '-c', words]).map(quote).join(' ')

/** Not the shell's own `export`: a shell keeps some names to itself, and refuses them a value. */
function withSettings(env: ExecCommand['env']): string {
  const settings = Object.entries(env).map(([name, value]) => quote(`${name}=${value}`))
  return settings.length > 0 ? `env ${settings.join(' ')} ` : ''
}

/**
 * Starts the watcher of a command that is not over at once; `pid` is the command's, which a busy guest may not have begun
 * yet. It also ends the command after its time, should nobody be there any more to do so.
 */
export function watchScript(pid: number, nonce: string, timeoutSecs: number): string {
  return `${pieces(nonce)}
(
  n=0 c=
  while kill -0 ${pid} && { [ -z "$c" ] || kill -0 $c; }; do
    [ "$c" ] || read c <$p.c
    sleep ${stepSecs}
    n=$((n + 1))
    [ $n -gt ${Math.ceil((timeoutSecs + graceSecs) / stepSecs)} ] && kill -KILL -- -${pid}
  done
  [ "$c" ] || read c <$p.c
  sleep ${lateSecs}
  while [ -e $p.c ] && kill -USR1 $c; do sleep ${stepSecs}; done
) </dev/null >/dev/null 2>&1 &
`
}

/** Ends the command's whole group and session, also what ignores gentler signals. */
export const killScript = (pid: number): string => `kill -KILL -- -${pid}; pkill -KILL -s ${pid}; :`

/** The same, where it is still the one that has run for so long: after a reboot the number may be another's. */
export const killOldScript = (
  pid: number,
  ageSecs: number,
): string => `read -r s 2>/dev/null </proc/${pid}/stat || exit 0
read -r up rest </proc/uptime
set -- \${s##*) }
[ $((\${up%.*} - \${20} / 100)) -lt ${ageSecs} ] || { ${killScript(pid)}; }
`

/**
 * Reads on what the session's left processes hold open, so that they outlive the channel it goes to; says how many pipes.
 */
export const holdScript = (pid: number): string => `n=0 seen=
for d in /proc/[0-9]*; do
  read -r s 2>/dev/null <$d/stat || continue
  set -- \${s##*) }
  [ "$4" = ${pid} ] || continue
  for f in 1 2; do
    l=$(readlink $d/fd/$f) || continue
    case $l in pipe:*) ;; *) continue;; esac
    case "$seen" in *"$l"*) continue;; esac
    exec 5<$d/fd/$f || continue
    seen="$seen $l" n=$((n + 1))
    setsid cat <&5 >/dev/null 2>&1 &
    exec 5<&-
  done
done
echo $n
`

/** Shells differ in what they call a command: a path must be a file that may be run. */
const mustBeProgram = `case $1 in
  */*) [ -f "$1" ] && [ -x "$1" ] || no program;;
  *) command -v -- "$1" >/dev/null 2>&1 || no program;;
esac`

/** A guest that runs out of memory shall lose the command, not what carries it. */
const expendable = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null\n'

export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`
