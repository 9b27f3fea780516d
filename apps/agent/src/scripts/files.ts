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

/** What is written, and how: null for the mode and owner that it would have by itself. */
export interface NewFile {
  path: string
  mode: number | null
  /** A user's name or number, or with `:` and a group behind it. */
  owner?: string | null | undefined
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

/**
 * Sets `$o`, to whom new files and folders belong: the given user with its group, or the owner of `$a`. That is the folder `$d`, or
 * what is there of its parents; `$b` is then the first one that is missing.
 */
export function newOwner(owner: string | null | undefined): string {
  const search = `a=$d; b=
while [ ! -e "$a" ] && [ ! -L "$a" ]; do b=$a; a=\${a%/*}; a=\${a:-/}; done
`
  if (owner == null) return `${search}o=$(stat -L -c %u:%g "$a" 2>/dev/null)\n`
  const [user, group] = owner.split(':').map(quote)
  const isKnown = `id -u "$u" >/dev/null 2>&1 || case $u in *[!0-9]*) no 'No such user';; esac`
  return `${search}u=${user}; ${isKnown}
g=${group ?? '$(id -g "$u" 2>/dev/null || echo "$u")'}; o=$u:$g
`
}

/** Gives the new entries, which are not followed if they are links. Some file systems have no owners. */
export const giveTo = (owner: string | null | undefined, entries: string, flags = '-h'): string =>
  owner == null
    ? `[ "$o" ] && chown ${flags} "$o" ${entries} 2>/dev/null\n`
    : `e=$(chown ${flags} "$o" ${entries} 2>&1) || no "\${e##*: }"\n`

/** Creates the folder `$d` if it is missing, with its parents, after `newOwner`. */
export const makeFolder = (owner: string | null | undefined): string => `if [ ! -d "$d" ]; then
  e=$(mkdir -p "$d" 2>&1) || {
    s=$(ls -d "$d/." 2>&1 >/dev/null)
    case $s in ''|*'No such file or directory') no "\${e##*: }";; *) no "\${s##*: }";; esac
  }
  set --; c=$d
  while [ "$b" ]; do set -- "$c" "$@"; [ "$c" = "$b" ] && break; c=\${c%/*}; done
  ${giveTo(owner, '"$@"')}fi
`

/** How often the watcher looks, after how many looks a file that has not grown is given up, and one whose writer has ended. */
const watch = { everySecs: 5, looksWithoutGrowth: 13, looksWithoutWriter: 6 }

/** Names the unfinished files and folders of this boot, so that a later one removes what is left. */
const ledger = '/var/lib/dormouse/unfinished'

/** Removes what an earlier boot of the guest has left unfinished, wherever it is. */
const sweep = `read -r k 2>/dev/null </proc/sys/kernel/random/boot_id
for f in ${ledger}/*; do
  case $f in ${ledger}/$k-*|"${ledger}/*") continue;; esac
  u=$(cat "$f")
  case $u in */.dormouse-*) rm -rf "$u";; esac
  rm -f "$f"
done
`

/** Notes `$t`, as far as the guest's disk allows; `forget` removes the note. */
export const noteUnfinished = (nonce: string): string =>
  `${sweep}{ [ -d ${ledger} ] || mkdir -p -m 700 ${ledger}; } 2>/dev/null && { printf %s "$t" >${ledger}/$k-${nonce}; } 2>/dev/null
`
export const forget = (nonce: string): string => `rm -f ${ledger}/*-${nonce}`

/** How what is unfinished is measured and removed. */
interface Unfinished {
  measure: string
  /** One command, without single quotes. */
  remove(entry: string): string
}
const file: Unfinished = { measure: 'wc -c <"$0"', remove: (entry) => `rm -f ${entry}` }

/**
 * Starts the watcher in the folder `$d`, which may be renamed; its process is then `$!`. `writer` is the process that writes. The
 * watcher removes the entry of that nonce if it stops growing, and half a minute after its writer has ended.
 */
export const watchUnfinished = (nonce: string, writer: string, { measure, remove } = file): string =>
  `cd "$d" || no 'Permission denied'
setsid sh -c 's=; i=0; w=0
while sleep ${watch.everySecs} && [ -e "$0" ]; do
  kill -0 "$1" 2>/dev/null || w=$((w + 1))
  [ $w -lt ${watch.looksWithoutWriter} ] || ${remove('"$0"')}
  i=$((i + 1)); [ $((i % ${watch.looksWithoutGrowth})) -eq 0 ] || continue
  n=$(${measure}); [ "$n" = "$s" ] && ${remove('"$0"')}; s=$n
done
${forget(nonce)}' .dormouse-${nonce} ${writer} </dev/null >/dev/null 2>&1 &
`

/** Continues a `createScript`: writes its input, and leaves nothing if the guest's file system does not take it. */
export const writeInput = `cat >"$t" || { n=$?; rm -f "$t"; exit $n; }\n`

/**
 * Creates an empty temporary file in the folder of the file to be written, and that folder if it is missing. Prints the three
 * fields of a `Place`. A symbolic link stays: its target is replaced. The watcher removes the temporary file when it stops
 * growing, or half a minute after its writer has ended. `next` continues in the same shell, with the temporary file as `$t`;
 * without it, another process writes.
 */
export function createScript({ path, owner }: Omit<NewFile, 'mode'>, nonce: string, next = ''): string {
  return `${prologue}p=${quote(path)}
${followLinks}[ -d "$p" ] && no 'Is a directory'
[ -e "$p" ] && [ ! -f "$p" ] && no 'Not a regular file'
d=\${p%/*}; [ "$d" ] || d=/
${newOwner(owner)}${makeFolder(owner)}t=\${d%/}/.dormouse-${nonce}
${createFor(owner)}${noteUnfinished(nonce)}${watchUnfinished(nonce, next === '' ? '1' : '$$')}printf '%s\\0%s\\0%s\\0' "$p" "$t" $!
t=.dormouse-${nonce}
${next}`
}

/** Creates `$t`, which nobody but its owner reads until it is whole. In `/proc`, each new name is reported as missing. */
export const createFor = (owner: string | null | undefined): string =>
  `e=$(touch "$t" 2>&1 && chmod 600 "$t" 2>&1) || { [ -d "$d" ] && case $e in *'No such file or directory') no 'Operation not permitted';; esac; no "\${e##*: }"; }
trap 'rm -f "$t"' EXIT
${giveTo(owner, '"$t"')}trap - EXIT
`

/**
 * Moves `$t` to `$p` in one step, with the given mode, or with the mode of the file that it replaces, and its owner unless
 * another is given. Bits that lend a file's owner to who runs it stay only if they are requested: the contents are others.
 */
export function placeFile({ mode, owner }: Omit<NewFile, 'path'>): string {
  const own = mode === null ? '$m' : mode.toString(8).padStart(4, '0')
  const keepOwner = owner == null ? ` && chown "$(stat -c %u:%g "$p")" "$t"` : ''
  return `[ -d "$p" ] && no 'Is a directory'
m=644
[ -f "$p" ] && m=$(stat -c %a "$p")${keepOwner}
case $m in ????) m=\${m#?};; esac
e=$(chmod ${own} "$t" 2>&1 && mv -f "$t" "$p" 2>&1) || no "\${e##*: }"
`
}

const nonceOf = ({ temporary }: Place): string => temporary.slice(temporary.lastIndexOf('-') + 1)

/** `$t` is what is unfinished, even if its folder was renamed. It is gone at the end, and its watcher. */
export const atEnd = (place: Place, { remove } = file): string => {
  const inFolder = `/proc/${place.watcher}/cwd/.dormouse-${nonceOf(place)}`
  return `t=${quote(place.temporary)}; [ -e ${inFolder} ] && t=${inFolder}
trap '${remove('"$t"')}; ${forget(nonceOf(place))}; kill -KILL -${place.watcher} 2>/dev/null' EXIT
`
}

export const commitScript = (place: Place, size: number, file: Omit<NewFile, 'path'>): string =>
  `${prologue}p=${quote(place.target)}
${atEnd(place)}[ -f "$t" ] && [ "$(wc -c <"$t")" -eq ${size} ] || no 'Gone meanwhile'
${placeFile(file)}`

/** Removes what is unfinished. */
export const abandonScript = (place: Place, how = file): string => `${atEnd(place, how)}exit 0\n`

/** The same in a guest that may have rebooted: the watcher's process id may now be another process's. */
export const removeScript = (place: Place, { remove } = file): string =>
  `${remove(quote(place.temporary))}; ${forget(nonceOf(place))}\n`

/** Succeeds if the path leads to a regular file: opening anything else could hang. `next` continues; `$p` is the path. */
export function checkScript(path: string, next = ''): string {
  return `${prologue}p=${quote(path)}
[ -d "$p" ] && no 'Is a directory'
[ -f "$p" ] || {
  e=$(ls -dL "$p" 2>&1 >/dev/null) && no 'Not a regular file'
  no "\${e##*: }"
}
${next}`
}

/** Up to this size a file is read before its size is sent: what the kernel makes when it is read has another one, or none. */
export const sureMaxBytes = 1024 * 1024

/**
 * Prints a line with the file's size and version, which is another one if it was changed. Then prints a short file; of a longer
 * one, a line of input gives the offset and the number of bytes.
 */
export const readScript = (path: string): string =>
  checkScript(
    path,
    `exec 3<"$p"
s=$(stat -L -c '%s %i-%s-%y' /proc/self/fd/3) || no 'Permission denied'
printf '%s\\n' "$s"
[ "\${s%% *}" -gt ${sureMaxBytes} ] || exec cat <&3
read -r a l
exec dd bs=256k iflag=fullblock,skip_bytes,count_bytes skip="$a" count="$l" status=none <&3
`,
  )

/** The line of `readScript`. */
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
