// Guarantee: what a guest's file system refuses has a refusal of its own, or one that quotes it; none says that the guest is silent.
import { Refusal, refusals } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { asReading, fileRefusal } from './file-failures.ts'

const refused = (message: string) => {
  const { code, detail } = fileRefusal(message)
  return refusals[code].status === 409 ? code : [code, detail]
}

test.each([
  ["mv: can't rename '/etc/.dormouse-a': Resource busy", 'busy'],
  ["mv: cannot move '/a' to '/etc/hosts': Device or resource busy", 'busy'],
  ['sh: 3: cannot create /bin/x: Text file busy', 'busy'],
  ['cat: read error: Input/output error', 'io_error'],
  ['cat: read error: I/O error', 'io_error'],
  ['cat: write error: File too large', 'file_too_large'],
  ['cat: write error: No space left on device\n', 'no_space'],
  ["dd: error writing '/mnt/x: y': Disk quota exceeded", 'quota_exceeded_in_guest'],
  ['ls: /mnt/fuse: Transport endpoint is not connected', 'not_connected'],
  ['ls: /mnt/fuse: Socket not connected', 'not_connected'],
  ['cat: /mnt/nfs/a: Stale file handle', 'not_connected'],
  ['cat: /dev/nothing: No such device or address', 'not_regular'],
  [': Too many levels of symbolic links', 'symlink_loop'],
  ['rm: x: Directory not empty', 'not_empty'],
  ['touch: x: Read-only file system', 'read_only'],
  ['chmod: x: Operation not permitted', 'permission_denied'],
  ['mkdir: a/b: Not a directory', 'not_directory'],
  [': Gone meanwhile', 'conflict'],
])('%j is %s', (message, code) => {
  expect(refused(message)).toBe(code)
})

test.each([
  ['ln: x: Too many links', 'Too many links'],
  ['mv: x: Invalid cross-device link', 'Invalid cross-device link'],
  ['cat: write error: Invalid argument', 'Invalid argument'],
  ['cat: x: Cannot allocate memory', 'Cannot allocate memory'],
  ['sh: 1: stat: not found', 'not found'],
  [': constructor', 'constructor'],
  ['Killed', 'Killed'],
  ['', 'no message'],
])('%j, which has no refusal of its own, is quoted', (message, quoted) => {
  const refusal = fileRefusal(message)
  expect([refusal.code, refusal.detail]).toEqual(['file_refused', quoted])
})

test('a name that is too long, a folder in itself and an unknown user are the request’s fault', () => {
  expect(refused('touch: x: File name too long')).toEqual(['invalid_request', expect.stringMatching(/^path /)])
  expect(refused(': In itself')).toEqual(['invalid_request', expect.stringMatching(/^to /)])
  expect(refused(': No such user')).toEqual(['invalid_request', expect.stringMatching(/^owner /)])
})

test('for a reader, what is below a file does not exist', () => {
  expect(() => asReading(fileRefusal('cat: a/b: Not a directory'))).toThrow(
    expect.objectContaining({ code: 'file_not_found' }),
  )
  expect(() => asReading(new Refusal('busy'))).toThrow(expect.objectContaining({ code: 'busy' }))
})
