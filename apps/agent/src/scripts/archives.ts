// The shell scripts that pack a folder of a guest, and unpack one into it: pure text, for the tar of GNU and of BusyBox. An archive
// is unpacked beside its target, so that nothing is in its place before all of it has come.
import { fileLimits } from './limits.ts'
import { quote } from './quote.ts'

/** Where an archive goes, and who owns its entries: null for the owner of the folder that each is put in. */
export interface UnpackTarget {
  path: string
  owner: string | null
}

/** An archive that is being unpacked: its path, the folder that it is unpacked into, and the watcher's process in the guest. */
export interface Place {
  target: string
  temporary: string
  watcher: string
}

/** Exit code of a script that failed; its last line on stderr is the reason. */
const failedCode = 97

/** The messages in English, so that `file-failures.ts` can tell them apart. */
const prologue = `LC_ALL=C; export LC_ALL
PATH="\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"; export PATH
no() { printf ': %s\\n' "$1" >&2; exit ${failedCode}; }
`

/** The `x` keeps newlines at the end of a name, which a substitution would drop. */
const followLinks = `n=0
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
function newOwner(owner: string | null): string {
  const search = `a=$d; b=
while [ ! -e "$a" ] && [ ! -L "$a" ]; do b=$a; a=\${a%/*}; a=\${a:-/}; done
`
  if (owner === null) return `${search}o=$(stat -L -c %u:%g "$a" 2>/dev/null)\n`
  const [user, group] = owner.split(':').map(quote)
  const isKnown = `id -u "$u" >/dev/null 2>&1 || case $u in *[!0-9]*) no 'No such user';; esac`
  return `${search}u=${user}; ${isKnown}
g=${group ?? '$(id -g "$u" 2>/dev/null || echo "$u")'}; o=$u:$g
`
}

/** Gives the new entries, which are not followed if they are links. Some file systems have no owners. */
const giveTo = (owner: string | null, entries: string, flags = '-h'): string =>
  owner === null
    ? `[ "$o" ] && chown ${flags} "$o" ${entries} 2>/dev/null\n`
    : `e=$(chown ${flags} "$o" ${entries} 2>&1) || no "\${e##*: }"\n`

/** Creates the folder `$d` if it is missing, with its parents, after `newOwner`. */
const makeFolder = (owner: string | null): string => `if [ ! -d "$d" ]; then
  e=$(mkdir -p "$d" 2>&1) || {
    s=$(ls -d "$d/." 2>&1 >/dev/null)
    case $s in ''|*'No such file or directory') no "\${e##*: }";; *) no "\${s##*: }";; esac
  }
  set --; c=$d
  while [ "$b" ]; do set -- "$c" "$@"; [ "$c" = "$b" ] && break; c=\${c%/*}; done
  ${giveTo(owner, '"$@"')}fi
`

/** How often the watcher looks, after how many looks a folder that has not grown is given up, and one whose writer has ended. */
const watch = { everySecs: 5, looksWithoutGrowth: 13, looksWithoutWriter: 6 }

/** Our program removes what an earlier boot of the guest has noted here. */
const ledger = '/var/lib/dormouse/unfinished'

/** Notes `$t`, as far as the guest's disk allows; `forget` removes the note. */
const noteUnfinished = (nonce: string): string =>
  `read -r k 2>/dev/null </proc/sys/kernel/random/boot_id
{ [ -d ${ledger} ] || mkdir -p -m 700 ${ledger}; } 2>/dev/null && { printf %s "$t" >${ledger}/$k-${nonce}; } 2>/dev/null
`
const forget = (nonce: string): string => `rm -f ${ledger}/*-${nonce}`

const needsTar = `command -v tar >/dev/null || no 'No tar'\n`

/** Sets `$w` to the first line of tar's messages, in `$e`, that means more than a change meanwhile. */
const firstError = `w=$(printf '%s\n' "$e" | grep -v -e ': file changed as we read it$' -e ': File removed before we read it$' \
  -e 'socket ignored$' -e ' in the future$' -e 'implausibly old' -e ': Wrote only ' -e 'Exiting with failure status' -e 'previous errors$' | head -n 1)\n`

/**
 * Prints a newline once the folder is open, then its archive. GNU's tar ends with 1 if something has changed meanwhile, which is
 * no failure.
 */
export const packScript = (path: string): string => `${prologue}${needsTar}p=${quote(path)}
[ -d "$p" ] || { e=$(ls -dL "$p" 2>&1 >/dev/null) && no 'Not a directory'; no "\${e##*: }"; }
cd "$p" 2>/dev/null || no 'Permission denied'
echo
exec 3>&1
e=$(tar -cf - . 2>&1 >&3 3>&-); c=$?
[ $c -eq 0 ] && exit 0
${firstError}[ $c -eq 1 ] && [ -z "$w" ] && exit 0
no "\${w##*: }"
`

/** While tar still unpacks, it may put something into a folder that is being removed. */
const remove = (folder: string) => `{ for k in 1 2 3 4 5; do rm -rf ${folder} 2>/dev/null && break; sleep 1; done; }`

/**
 * Starts the watcher in the folder `$d`, which may be renamed; its process is then `$!`. It removes what the nonce names if that stops
 * growing, and half a minute after this script has ended.
 */
const watchUnfinished = (nonce: string): string =>
  `cd "$d" || no 'Permission denied'
setsid sh -c 's=; i=0; w=0
while sleep ${watch.everySecs} && [ -e "$0" ]; do
  kill -0 "$1" 2>/dev/null || w=$((w + 1))
  [ $w -lt ${watch.looksWithoutWriter} ] || ${remove('"$0"')}
  i=$((i + 1)); [ $((i % ${watch.looksWithoutGrowth})) -eq 0 ] || continue
  n=$(du -s "$0"); [ "$n" = "$s" ] && ${remove('"$0"')}; s=$n
done
${forget(nonce)}' .dormouse-${nonce} $$ </dev/null >/dev/null 2>&1 &
`

const nonceOf = ({ temporary }: Place): string => temporary.slice(temporary.lastIndexOf('-') + 1)

/** `$t` is what is unfinished, even if its folder was renamed. It is gone at the end, and its watcher. */
const atEnd = (place: Place): string => {
  const inFolder = `/proc/${place.watcher}/cwd/.dormouse-${nonceOf(place)}`
  return `t=${quote(place.temporary)}; [ -e ${inFolder} ] && t=${inFolder}
trap '${remove('"$t"')}; ${forget(nonceOf(place))}; kill -KILL -${place.watcher} 2>/dev/null' EXIT
`
}

/** Removes what is unfinished. */
export const abandonScript = (place: Place): string => `${atEnd(place)}exit 0\n`

/** The same in a guest that may have rebooted: the watcher's process id may now be another process's. */
export const removeScript = (place: Place): string => `${remove(quote(place.temporary))}; ${forget(nonceOf(place))}\n`

/** A place from its fields, each with a NUL behind it; undefined while they are not three. */
export function parsePlace(printed: Buffer): Place | undefined {
  if (printed.length > fileLimits.placeMaxBytes) return undefined
  const [target, temporary, watcher, ...more] = printed.toString('utf8').split('\0')
  if (!target || !temporary || !watcher || more.length !== 1 || !/^\d+$/.test(watcher)) return undefined
  return { target, temporary, watcher }
}

/**
 * Unpacks its input into a folder of its own: in the target or, if that is missing, in its nearest parent. Prints the three fields
 * of a `Place`, and leaves nothing if it fails.
 */
export const unpackScript = (
  { path, owner }: UnpackTarget,
  nonce: string,
): string => `${prologue}${needsTar}p=${quote(path)}
${followLinks}d=$p
${newOwner(owner)}[ -d "$a" ] || no 'Not a directory'
d=$a; t=\${d%/}/.dormouse-${nonce}
${noteUnfinished(nonce)}e=$(mkdir -m 700 "$t" 2>&1 && mkdir -m 755 "$t/c" 2>&1) || no "\${e##*: }"
v=
trap 'rm -rf "$t"; ${forget(nonce)}; [ -z "$v" ] || kill -KILL -$v 2>/dev/null' EXIT
trap 'exit 1' HUP INT TERM PIPE
${watchUnfinished(nonce)}v=$!
printf '%s\\0%s\\0%s\\0' "$p" "$t" $v
e=$(tar -xof - -C "$t/c" 2>&1) || {
  ${firstError}  case $w in
  *'not look like a tar'*|*'nvalid tar'*|*'nexpected '*|*'short read'*|*orrupted*|*' is compressed'*|*'kipping to next header'*) no 'Not an archive';;
  esac
  [ "$w" ] || case $e in *': Wrote only '*) no 'No space left on device';; esac
  no "\${w##*: }"
}
trap - EXIT
cat >/dev/null
`

/** Places what was unpacked: in one step if the folder is new, else entry by entry, each of them whole. */
export const placeScript = (place: Place, owner: string | null): string => `${prologue}p=${quote(place.target)}
${atEnd(place)}[ -d "$t/c" ] || no 'Gone meanwhile'
if [ ! -d "$p" ]; then
  { [ -L "$p" ] || [ -e "$p" ]; } && no 'Not a directory'
  d=\${p%/*}; [ "$d" ] || d=/
  ${newOwner(owner)}${makeFolder(owner)}${giveAll(owner, '"$t/c"')}e=$(mv -T "$t/c" "$p" 2>&1) || no "\${e##*: }"
  exit 0
fi
prologue=${quote(prologue)}; files=${quote(placeFiles)}; owners=${quote(owner === null ? keepOwners : '')}
export prologue files owners
e=$(find "$t/c" -type d -print0 2>&1 >"$t/folders") || no "\${e##*: }"
e=$(xargs -0 sh -c ${quote(placeFolders(owner))} "$p" "$t/c" <"$t/folders" 2>&1) && [ -z "$e" ] || no "\${e##*: }"
`

/** As `giveTo`, with all that is in a folder. */
const giveAll = (owner: string | null, folder: string): string => giveTo(owner, folder, '-hR')

/**
 * For each folder that was unpacked, parents first: `$0` is the target, `$1` the folder that was unpacked. A folder that is
 * missing in the target is moved with everything in it.
 */
const placeFolders = (owner: string | null): string => `eval "$prologue"
q=$0; s=$1; shift
for f; do
  [ -d "$f" ] || continue
  r=$q\${f#"$s"}; d=$r
  if [ -d "$r" ]; then
    ${newOwner(owner)}find "$f" -mindepth 1 -maxdepth 1 ! -type d -exec sh -c "$files" "$r" "$o" {} +
  else
    { [ -L "$r" ] || [ -e "$r" ]; } && no 'Not a directory'
    d=\${r%/*}
    ${newOwner(owner)}${giveAll(owner, '"$f"')}e=$(mv -T "$f" "$r" 2>&1) || no "\${e##*: }"
  fi
done
`

/** Moves files into the folder `$0`, given to `$1`. A symbolic link stays, and its target is replaced, unless by another link. */
const placeFiles = `eval "$prologue"
r=$0; o=$1; shift
[ "$o" ] && chown -h "$o" "$@" 2>/dev/null
[ -z "$owners" ] || [ -z "$o" ] || sh -c "$owners" "$r" "$o" "$1"
k=$#
for f; do
  p=$r/\${f##*/}
  if [ ! -L "$f" ]; then
    ${followLinks}  fi
  if [ ! -L "$p" ]; then
    [ -d "$p" ] && no 'Is a directory'
    [ -e "$p" ] && [ ! -f "$p" ] && no 'Not a regular file'
  fi
  if [ "$p" = "$r/\${f##*/}" ]; then set -- "$@" "$f"; else e=$(mv -f -T "$f" "$p" 2>&1) || no "\${e##*: }"; fi
done
shift $k
[ $# -eq 0 ] || e=$(mv -f "$@" "$r/" 2>&1) || no "\${e##*: }"
`

/** Gives a file the owner of the one in the folder `$0` that it replaces, if that is another than `$1`. `$2` is one of the files. */
const keepOwners = `find "$0" -mindepth 1 -maxdepth 1 -type f '(' ! -user "\${1%:*}" -o ! -group "\${1#*:}" ')' -exec sh -c '
  for x; do
    f=$0/\${x##*/}
    [ -f "$f" ] && [ ! -L "$f" ] && chown "$(stat -c %u:%g "$x")" "$f"
  done' "\${2%/*}" {} +
`
