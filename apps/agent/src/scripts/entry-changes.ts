// The shell scripts that change entries of a guest's file system, over either transport: pure text. Each prints the entry as
// it is afterwards, unless it was removed.
import type { EntryChange } from '@dormouse/contract'
import { mustExist, printEntry } from './entries.ts'
import { forget, giveTo, makeFolder, newOwner, noteUnfinished, prologue } from './files.ts'
import { quote } from './quote.ts'
import { limitedFunction, wasLimited } from './time-limit.ts'

type Change<A extends EntryChange['action']> = Extract<EntryChange, { action: A }>

/** `within COMMAND…` runs it for a limited time, and ends the script with its message if it fails. */
const within = (secs: number) => `${limitedFunction}within() {
  e=$(limited ${secs} "$@" 2>&1)
  case $? in 0) return;; ${wasLimited} no 'Timed out';; esac
  no "\${e##*: }"
}
`

export function changeScript(change: EntryChange, nonce: string, timeoutSecs: number): string {
  const start = `${prologue}${within(timeoutSecs)}p=${quote(change.path)}\n`
  switch (change.action) {
    case 'mkdir':
      return start + mkdir(change) + printEntry(nonce)
    case 'move':
      return `${start}${mustExist}${target(change)}${place(change, '$p')}p=$q\n${printEntry(nonce)}`
    case 'copy':
      return start + mustExist + copy(change, nonce) + printEntry(nonce)
    case 'remove':
      return start + mustExist + remove(change)
    case 'chmod':
      return `${start}${mustExist}within chmod ${change.recursive ? '-R ' : ''}${octal(change.mode)} "$p"\n${printEntry(nonce)}`
  }
}

const octal = (mode: number): string => mode.toString(8).padStart(4, '0')

function mkdir({ parents, mode, owner }: Change<'mkdir'>): string {
  const chmod = mode === null ? '' : `within chmod ${octal(mode)} "$p"\n`
  const isThere = `{ [ -L "$p" ] || [ -e "$p" ]; } && no 'Exists already'\n`
  const start = `d=$p\n${newOwner(owner)}`
  if (!parents) return `${isThere}${start}within mkdir "$p"\n${giveTo(owner, '"$p"')}${chmod}`
  return `if [ ! -d "$p" ]; then\n${isThere}${start}${makeFolder(owner)}${chmod}fi\n`
}

/** `$q` is where the entry goes, `$d` its folder, which is created. */
const target = ({ to, overwrite }: { to: string; overwrite: boolean }): string => `q=${quote(to)}
[ -d "$q" ] && [ ! -L "$q" ] && no 'Is a directory'
${overwrite ? '' : `{ [ -L "$q" ] || [ -e "$q" ]; } && no 'Exists already'\n`}d=\${q%/*}; [ "$d" ] || d=/
${newOwner(null)}${makeFolder(null)}${notInItself}`

/** Also by another name of it. */
const notInItself = `if [ -d "$p" ] && [ ! -L "$p" ]; then
  case "$(readlink -f "$d")/" in "$(readlink -f "$p")"/*) no 'In itself';; esac
fi
`

/** Without `overwrite`, `mv -n` leaves its source if something has appeared meanwhile. */
const place = ({ overwrite }: { overwrite: boolean }, from: string): string =>
  overwrite
    ? `within mv -f -T "${from}" "$q"\n`
    : `within mv -n -T "${from}" "$q"\n{ [ -L "${from}" ] || [ -e "${from}" ]; } && no 'Exists already'\n`

/**
 * For each file after `$1` and `$2` that has holes: copies it again, from below the first to below the second, without them. A piece
 * that holds something is written whole.
 */
const copyWithHoles = `s=$1; t=$2; shift 2
for f; do
  set -- $(stat -c "%b %s" "$f"); n=$2
  [ $(($1 * 512)) -lt $n ] || continue
  r=$t\${f#"$s"}; i=0
  rm -f "$r" && : >"$r" && truncate -s $n "$r" || exit 1
  while [ $((i * 262144)) -lt $n ]; do
    x=$(dd if="$f" bs=256k skip=$i count=1 status=none | tr -d "\\000" | head -c 1 | wc -c)
    [ $x -eq 0 ] || dd if="$f" of="$r" bs=256k skip=$i seek=$i count=1 conv=notrunc status=none || exit 1
    i=$((i + 1))
  done
  chown "$(stat -c %u:%g "$f")" "$r"; chmod "$(stat -c %a "$f")" "$r"; touch -r "$f" "$r"
done`

/** BusyBox's `cp` fills holes. */
const copyKeepingHoles = `case $(cp --help 2>&1) in
*--sparse*) within cp -a "$s" "$t";;
*)
  [ -f "$s" ] && [ ! -L "$s" ] && b=$(stat -c %b "$s") && n=$(stat -c %s "$s") && [ $((b * 512)) -lt $n ] || within cp -a "$s" "$t"
  within find "$s" -type f -exec sh -c '${copyWithHoles}' sh "$s" "$t" {} +;;
esac
`

/** Copies under a temporary name first, so that nobody sees half of it. */
const copy = (change: Change<'copy'>, nonce: string): string => `s=$p
${change.recursive ? '' : `[ -d "$s" ] && [ ! -L "$s" ] && no 'Is a directory'\n`}${target(change)}t=\${d%/}/.dormouse-${nonce}
${noteUnfinished(nonce)}trap 'rm -rf "$t"; ${forget(nonce)}' EXIT
trap 'exit 1' HUP INT TERM PIPE
${copyKeepingHoles}${place(change, '$t')}p=$q
`

const remove = ({ recursive }: Change<'remove'>): string => `if [ -d "$p" ] && [ ! -L "$p" ]; then
  within ${recursive ? 'rm -rf' : 'rmdir'} "$p"
else
  within rm -f "$p"
fi
`
