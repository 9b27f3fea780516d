// The shell scripts that prepare, place and take away files inside a guest, whatever carries the bytes: pure text, for any
// POSIX shell with the usual small tools. What the guest's file system refuses comes back as its own words.
import { quote } from './exec.ts'

/** Exit code of a script that was refused; its last line says why. */
export const refusedCode = 97

/** A file on its way: where it shall be, where it is until then, and the watcher's process in the guest. */
export interface Place {
  target: string
  temporary: string
  watcher: string
}

/** In the shell's own words, so that they can be told from one another. */
const begin = `LC_ALL=C; export LC_ALL
PATH="\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"; export PATH
no() { printf ': %s\\n' "$1" >&2; exit ${refusedCode}; }
`

/** Names with newlines keep them: a substitution drops those at its end. */
const followLinks = `n=0
while [ -L "$p" ]; do
  n=$((n + 1)); [ $n -le 40 ] || no 'Too many levels of symbolic links'
  l=$(readlink "$p" && echo x); l=\${l%??}
  case $l in /*) p=$l;; *) p=\${p%/*}/$l;; esac
done
`

/** Longer than a caller may stand still. */
const watchSecs = 65

/**
 * Makes an empty file in the folder of the one that shall be written, and that folder where it is not there; prints the
 * three words of a place. A link keeps being one: what it leads to is replaced. The watcher takes the file away when
 * nobody goes on with it. `next` goes on in the same shell, where `$t` is the file.
 */
export function createScript(path: string, nonce: string, next = ''): string {
  return `${begin}p=${quote(path)}
${followLinks}[ -d "$p" ] && no 'Is a directory'
[ -e "$p" ] && [ ! -f "$p" ] && no 'Not a regular file'
d=\${p%/*}; [ "$d" ] || d=/
if [ ! -d "$d" ]; then
  e=$(mkdir -p "$d" 2>&1) || {
    s=$(ls -d "$d/." 2>&1 >/dev/null)
    case $s in ''|*'No such file or directory') no "\${e##*: }";; *) no "\${s##*: }";; esac
  }
fi
t=\${d%/}/.dormouse-${nonce}
e=$(touch "$t" 2>&1 && chmod 600 "$t" 2>&1) || no "\${e##*: }"
setsid sh -c 's=; while sleep ${watchSecs} && [ -e "$0" ]; do
  n=$(wc -c <"$0"); [ "$n" = "$s" ] && rm -f "$0"; s=$n
done' "$t" </dev/null >/dev/null 2>&1 &
printf '%s\\0%s\\0%s\\0' "$p" "$t" $!
${next}`
}

/** Puts the file in place in one step, with the given mode, or the mode and owner of the one it replaces. */
export function commitScript({ target, temporary, watcher }: Place, size: number, mode: number | null): string {
  const own = mode === null ? '$m' : mode.toString(8).padStart(4, '0')
  return `${begin}p=${quote(target)}; t=${quote(temporary)}
kill -KILL -- -${watcher} 2>/dev/null
trap 'rm -f "$t"' EXIT
[ "$(wc -c <"$t")" -eq ${size} ] || no 'Short write'
[ -d "$p" ] && no 'Is a directory'
m=0644
[ -f "$p" ] && m=$(stat -c %a "$p") && chown "$(stat -c %u:%g "$p")" "$t"
e=$(chmod ${own} "$t" 2>&1 && mv -f "$t" "$p" 2>&1) || no "\${e##*: }"
`
}

/** Takes away what was begun. */
export const abandonScript = ({ temporary, watcher }: Place): string =>
  `kill -KILL -- -${watcher} 2>/dev/null; rm -f ${quote(temporary)}\n`

/** The same in a guest that began anew: the watcher ended with it, and its number may be another's. */
export const removeScript = ({ temporary }: Place): string => `rm -f ${quote(temporary)}\n`

/** Succeeds where the path leads to a regular file: opening anything else could hang. `next` goes on, where it is `$p`. */
export function checkScript(path: string, next = ''): string {
  return `${begin}p=${quote(path)}
[ -d "$p" ] && no 'Is a directory'
[ -f "$p" ] || {
  e=$(ls -dL "$p" 2>&1 >/dev/null) && no 'Not a regular file'
  no "\${e##*: }"
}
${next}`
}

/** A guest’s word is untrusted: where a file lies takes fewer bytes. */
export const placeMaxBytes = 16 * 1024

/** The words of a place, each with a NUL behind it; undefined while they are not three. */
export function readPlace(printed: Buffer): Place | undefined {
  if (printed.length > placeMaxBytes) return undefined
  const [target, temporary, watcher, ...more] = printed.toString('utf8').split('\0')
  if (!target || !temporary || !watcher || more.length !== 1 || !/^\d+$/.test(watcher)) return undefined
  return { target, temporary, watcher }
}
