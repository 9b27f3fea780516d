// The errors of a guest's file system: their numbers, the messages of its C library (glibc's, then musl's if it differs), and
// the refusal for each. Any other error is quoted in `file_refused`.
import type { RefusalCode } from '@dormouse/contract'

type Row = readonly [number: number, code: RefusalCode, ...messages: string[]]

/** In place of ENOENT's message: dash's, then BusyBox's. */
const openingWithoutFolder = ['No such file', 'Directory nonexistent', 'no such file', 'nonexistent directory'] as const

const rows = {
  EPERM: [1, 'permission_denied', 'Operation not permitted'],
  ENOENT: [2, 'file_not_found', 'No such file or directory', ...openingWithoutFolder],
  EIO: [5, 'io_error', 'Input/output error', 'I/O error'],
  ENXIO: [6, 'not_regular', 'No such device or address'],
  EAGAIN: [11, 'busy', 'Resource temporarily unavailable'],
  EACCES: [13, 'permission_denied', 'Permission denied'],
  EBUSY: [16, 'busy', 'Device or resource busy', 'Resource busy'],
  // While folders are made: a part of the path is something else.
  EEXIST: [17, 'not_directory', 'File exists'],
  ENODEV: [19, 'not_regular', 'No such device'],
  ENOTDIR: [20, 'not_directory', 'Not a directory'],
  EISDIR: [21, 'is_directory', 'Is a directory'],
  ETXTBSY: [26, 'busy', 'Text file busy'],
  EFBIG: [27, 'file_too_large', 'File too large'],
  ENOSPC: [28, 'no_space', 'No space left on device'],
  EROFS: [30, 'read_only', 'Read-only file system'],
  ENAMETOOLONG: [36, 'invalid_request', 'File name too long', 'Filename too long'],
  ENOTEMPTY: [39, 'not_empty', 'Directory not empty'],
  ELOOP: [40, 'symlink_loop', 'Too many levels of symbolic links', 'Symbolic link loop'],
  ENETDOWN: [100, 'not_connected', 'Network is down'],
  ENETUNREACH: [101, 'not_connected', 'Network is unreachable', 'Network unreachable'],
  ECONNABORTED: [103, 'not_connected', 'Software caused connection abort', 'Connection aborted'],
  ECONNRESET: [104, 'not_connected', 'Connection reset by peer'],
  ENOTCONN: [107, 'not_connected', 'Transport endpoint is not connected', 'Socket not connected'],
  ESHUTDOWN: [108, 'not_connected', 'Cannot send after transport endpoint shutdown'],
  ETIMEDOUT: [110, 'not_connected', 'Connection timed out', 'Operation timed out'],
  ECONNREFUSED: [111, 'not_connected', 'Connection refused'],
  EHOSTDOWN: [112, 'not_connected', 'Host is down'],
  EHOSTUNREACH: [113, 'not_connected', 'No route to host', 'Host is unreachable'],
  ESTALE: [116, 'not_connected', 'Stale file handle', 'Stale NFS file handle'],
  EUCLEAN: [117, 'io_error', 'Structure needs cleaning'],
  EREMOTEIO: [121, 'io_error', 'Remote I/O error'],
  EDQUOT: [122, 'quota_exceeded_in_guest', 'Disk quota exceeded', 'Quota exceeded'],
} as const satisfies Record<string, Row>

const all = Object.values(rows) as readonly Row[]

export const codeByErrno: ReadonlyMap<number, RefusalCode> = new Map(all.map(([number, code]) => [number, code]))

export const codeByMessage: ReadonlyMap<string, RefusalCode> = new Map(
  all.flatMap(([, code, ...messages]) => messages.map((message) => [message, code] as const)),
)
