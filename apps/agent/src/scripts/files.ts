// The shell scripts that create, place and remove files inside a guest, over either transport: pure text, for any POSIX
// shell with the usual small tools. An error of the guest's file system comes back as its message.
import { refuse } from '@dormouse/contract'
import { fileLimits } from './limits.ts'
import { quote } from './quote.ts'

/** Exit code of a script that failed; its last line on stderr is the reason. */
const failedCode = 97

/** A file that is being written: its path, its temporary path until it is whole, and the watcher's process in the guest. */
export interface Place {
  target: string
  temporary: string
  watcher: string
}

/** The messages in English, so that `file-failures.ts` can tell them apart. */
export const prologue = `LC_ALL=C; export LC_ALL
PATH="\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"; export PATH
no() { printf ': %s\\n' "$1" >&2; exit ${failedCode}; }
`

/** The `x` keeps newlines at the end of a name, which a substitution would drop. */
export const followLinks = `n=0
while [ -L "$p" ]; do
  n=$((n + 1)); [ $n -le 40 ] || no 'Too many levels of symbolic links'
  l=$(readlink "$p" && echo x); l=\${l%??}
  case $l in /*) p=$l;; *) p=\${p%/*}/$l;; esac
done
`

/** Creates the folder `$d` where it is missing, with its parents. */
export const makeFolder = `if [ ! -d "$d" ]; then
  e=$(mkdir -p "$d" 2>&1) || {
    s=$(ls -d "$d/." 2>&1 >/dev/null)
    case $s in ''|*'No such file or directory') no "\${e##*: }";; *) no "\${s##*: }";; esac
  }
fi
`

/** Longer than a caller may make no progress. */
const watchSecs = 65

/**
 * Creates an empty temporary file in the folder of the file to be written, and that folder where it is missing. Prints the
 * three fields of a `Place`. A symbolic link stays: its target is replaced. The watcher removes the temporary file when it
 * stops growing. `next` continues in the same shell, where `$t` is the temporary file.
 */
export function createScript(path: string, nonce: string, next = ''): string {
  return `${prologue}p=${quote(path)}
${followLinks}[ -d "$p" ] && no 'Is a directory'
[ -e "$p" ] && [ ! -f "$p" ] && no 'Not a regular file'
d=\${p%/*}; [ "$d" ] || d=/
${makeFolder}t=\${d%/}/.dormouse-${nonce}
e=$(touch "$t" 2>&1 && chmod 600 "$t" 2>&1) || no "\${e##*: }"
setsid sh -c 's=; while sleep ${watchSecs} && [ -e "$0" ]; do
  n=$(wc -c <"$0"); [ "$n" = "$s" ] && rm -f "$0"; s=$n
done' "$t" </dev/null >/dev/null 2>&1 &
printf '%s\\0%s\\0%s\\0' "$p" "$t" $!
${next}`
}

/** Moves the file into place in one step, with the given mode, or the mode and owner of the file that it replaces. */
export function commitScript({ target, temporary, watcher }: Place, size: number, mode: number | null): string {
  const own = mode === null ? '$m' : mode.toString(8).padStart(4, '0')
  return `${prologue}p=${quote(target)}; t=${quote(temporary)}
kill -KILL -- -${watcher} 2>/dev/null
trap 'rm -f "$t"' EXIT
[ "$(wc -c <"$t")" -eq ${size} ] || no 'Short write'
[ -d "$p" ] && no 'Is a directory'
m=0644
[ -f "$p" ] && m=$(stat -c %a "$p") && chown "$(stat -c %u:%g "$p")" "$t"
e=$(chmod ${own} "$t" 2>&1 && mv -f "$t" "$p" 2>&1) || no "\${e##*: }"
`
}

/** Removes an unfinished file. */
export const abandonScript = ({ temporary, watcher }: Place): string =>
  `kill -KILL -- -${watcher} 2>/dev/null; rm -f ${quote(temporary)}\n`

/** The same in a guest that may have rebooted: the watcher's process id may now be another process's. */
export const removeScript = ({ temporary }: Place): string => `rm -f ${quote(temporary)}\n`

/** Succeeds where the path leads to a regular file: opening anything else could hang. `next` continues; `$p` is the path. */
export function checkScript(path: string, next = ''): string {
  return `${prologue}p=${quote(path)}
[ -d "$p" ] && no 'Is a directory'
[ -f "$p" ] || {
  e=$(ls -dL "$p" 2>&1 >/dev/null) && no 'Not a regular file'
  no "\${e##*: }"
}
${next}`
}

/** Prints size and version of the file that is open as 3: another version wherever it was changed. */
export const printVersion = `stat -L -c '%s %i-%s-%y' /proc/self/fd/3 || no 'Permission denied'\n`

/** Opens the file as 3. */
export const openForReading = `exec 3<"$p"\n`

/** Prints as many bytes as a line of input says, from where it says. */
export const printRange = `read -r a l
exec dd bs=256k iflag=skip_bytes,count_bytes skip="$a" count="$l" <&3 2>/dev/null
`

/** What `printVersion` has printed. */
export function parseVersion(line: string): { size: number; version: string } {
  const [, size, stat] =
    /^(\d{1,15}) (\S.{1,80})$/.exec(line) ?? refuse('guest_unavailable', 'the guest did not report the file’s size')
  return { size: Number(size), version: stat!.replace(/[^\w.-]/g, '') }
}

/** A place from its fields, each with a NUL behind it; undefined while they are not three. */
export function parsePlace(printed: Buffer): Place | undefined {
  if (printed.length > fileLimits.placeMaxBytes) return undefined
  const [target, temporary, watcher, ...more] = printed.toString('utf8').split('\0')
  if (!target || !temporary || !watcher || more.length !== 1 || !/^\d+$/.test(watcher)) return undefined
  return { target, temporary, watcher }
}
