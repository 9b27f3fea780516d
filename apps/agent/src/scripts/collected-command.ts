// The shell scripts that run a command through the guest agent: pure text. The agent breaks on large answers, so the output
// goes through files in the guest, and a bounded part comes back in one reply.
import { type ExecCommand, execOutputMaxBytes } from '@dormouse/contract'
import { argvOf, enterFolder, expendable, launcherOf, mustBeProgram, refuseFunction } from './command.ts'

/** Last line of the collector on stderr: which of the two streams it had to cut. */
export const trailerPrefix = (nonce: string): string => `\ndormouse-${nonce} kept `

const blockBytes = 512
/** One block more than the limit, so that a longer output is detected. */
const keptBlocks = execOutputMaxBytes / blockBytes + 1
const stepSecs = 0.25
/** How long a busy guest may take to hand over the output after the end of its command. */
const lateSecs = 0.5
/** The guest ends the command by itself so long after its deadline, should this host not have done so. */
const graceSecs = 30

/** The prefix of a command's temporary files in the guest; they are removed at its end. */
const temporaryFiles = (nonce: string): string =>
  `[ -w /run ] && p=/run/.dormouse-${nonce} || p=/tmp/.dormouse-${nonce}`

/**
 * Runs a command. For any POSIX shell with the usual small tools; each process that a script starts takes time, so it
 * starts few.
 *
 * - The script becomes the command, so that the agent sees the command's own end.
 * - The two streams go through named pipes into files of bounded size. What exceeds them is read and dropped: the command
 *   never blocks, and never fills the guest's memory.
 * - A collector beside it waits for the end of both pipes and prints the files.
 * - A background child of the command may still hold the pipes after its end. Then the watcher (`watcherScript`) tells the
 *   collector to stop waiting; the pipes are read until that child ends.
 */
export function collectedScript(request: ExecCommand, nonce: string, inputFile: string | undefined): string {
  return `export PATH="\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}" HOME="\${HOME:-/root}"
${temporaryFiles(nonce)}
${refuseFunction(nonce)}
${inputFile ? `exec <${inputFile} || no input\nrm -f ${inputFile}\n` : ''}cd -- "$HOME" 2>/dev/null || cd /
${enterFolder(request)}set -- ${argvOf(request.command)}
${mustBeProgram(request)}mkfifo -m 600 $p.1 $p.2 || no space
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
  printf '${trailerPrefix(nonce).replace('\n', '\\n')}%s' "$cut" >&2
  exec >/dev/null 2>&1 rm -f $p.1 $p.2 $p.o $p.e $p.c
) & echo $! >$p.c
${expendable}exec setsid ${launcherOf(request)}"$@" <&3 3<&- >$p.1 2>$p.2
`
}

/**
 * Starts the watcher of a command that does not end at once; a busy guest may not have started `pid` yet. It also ends the
 * command after its deadline, should this host not do so.
 */
export function watcherScript(pid: number, nonce: string, timeoutSecs: number): string {
  return `${temporaryFiles(nonce)}
(
  n=0 c=
  while kill -0 ${pid} && { [ -z "$c" ] || kill -0 $c; }; do
    [ "$c" ] || read c <$p.c
    sleep ${stepSecs}
    n=$((n + 1))
    [ $n -gt ${Math.ceil((timeoutSecs + graceSecs) / stepSecs)} ] && kill -KILL -${pid}
  done
  [ "$c" ] || read c <$p.c
  sleep ${lateSecs}
  while [ -e $p.c ] && kill -USR1 $c; do sleep ${stepSecs}; done
) </dev/null >/dev/null 2>&1 &
`
}
