// The shell scripts for a file that arrives in several parts, inside a guest, over either transport: pure text. Its bytes
// gather in a file beside its target, whose name is made from the upload's id, so that no step has to remember another.
import { refuse, type UploadCommand, type UploadResult } from '@dormouse/contract'
import { createFor, followLinks, makeFolder, newOwner, placeFile, prologue } from './files.ts'
import { quote } from './quote.ts'

export type UploadTarget = Pick<UploadCommand, 'path' | 'uploadId'>

/** `$p` is the target, `$d` its folder, `$t` the temporary file. */
const located = ({ path, uploadId }: UploadTarget): string => `${prologue}p=${quote(path)}
${followLinks}d=\${p%/*}; [ "$d" ] || d=/
t=\${d%/}/.dormouse-upload-${uploadId}
`

const mustTakeFile = `[ -d "$p" ] && no 'Is a directory'
[ -e "$p" ] && [ ! -f "$p" ] && no 'Not a regular file'
`
const printSize = `[ -f "$t" ] && exec stat -c %s "$t"\necho none\n`

/** Prints the size of the temporary file or `none`; after a `place` also `now` or `before`. */
export function uploadScript(command: Omit<UploadCommand, 'desktopId' | 'generation'>): string {
  const { owner } = command
  const start = located(command)
  switch (command.step) {
    case 'prepare':
      return `${start}${mustTakeFile}${newOwner(owner)}${makeFolder(owner)}${createFor(owner)}${printSize}`
    case 'measure':
      return start + printSize
    case 'drop':
      return `${start}e=$(rm -f "$t" 2>&1) || no "\${e##*: }"\n${printSize}`
    case 'place':
      return start + place(command)
  }
}

/** A target of the right size, without a temporary file, is the result of an earlier call whose answer was lost. */
function place({ size, ...file }: Pick<UploadCommand, 'size' | 'mode' | 'owner'>): string {
  return `if [ ! -f "$t" ]; then
  [ -f "$p" ] && [ "$(stat -c %s "$p")" = ${size ?? 0} ] && echo before
  echo none
  exit 0
fi
n=$(stat -c %s "$t")
[ "$n" = ${size ?? 0} ] || { echo "$n"; exit 0; }
${mustTakeFile}${placeFile(file)}echo now
echo none
`
}

export function parseUpload(printed: Buffer): UploadResult {
  const [, placed, size] =
    /^(?:(now|before)\n)?(none|\d{1,15})\n$/.exec(printed.toString('latin1')) ??
    refuse('guest_unavailable', 'the guest did not report the upload')
  return { size: size === 'none' ? null : Number(size), placed: (placed as 'now' | 'before' | undefined) ?? null }
}

/**
 * Prints the size of the temporary file or `none`; `next` continues if it is the offset. Bytes are written at their offset and
 * not appended: if a writer of an earlier connection is still busy, both write the same bytes.
 */
export const appendScript = (
  target: UploadTarget,
  offset: number,
  next = '',
): string => `${located(target)}[ -f "$t" ] || { echo none; exit 0; }
n=$(stat -c %s "$t")
echo "$n"
[ "$n" = ${offset} ] || exit 0
${next}`

/** Writes its input to the temporary file. */
export const writeAt = (offset: number): string =>
  `exec dd of="$t" bs=256k seek=${offset} oflag=seek_bytes conv=notrunc status=none`

/** Refuses unless the printed size is the offset. */
export function checkOffset(printed: string, offset: number): void {
  if (printed === 'none') refuse('upload_lost', 'the upload’s file is no longer in the guest')
  if (!/^\d{1,15}$/.test(printed)) refuse('guest_unavailable', 'the guest did not report the upload’s size')
  if (Number(printed) !== offset) refuse('upload_offset', `the upload has ${printed} bytes`)
}
