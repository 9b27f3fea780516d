// The one table of refusals: code, status, what happened and what to do. `docs/refusals.md` is made from it.
import { z } from 'zod'
import type { RefusalRow } from './refusal-row.ts'

const retry = 'retry, and ask the operator if it fails again'
const retryWhenBack = 'retry when the host is back'
const fromDisk = 'wake with `discard_memory` to boot from disk, or ask the operator'
const checkState = 'check the desktop’s state, then retry'
const anotherPath = 'choose another path'

/** A sentence is lower case: what happened, then what to do, joined by a semicolon, with no full stop. */
export const refusals = {
  invalid_request: {
    status: 400,
    from: 'host',
    what: 'the request is not valid',
    next: 'correct it and send it again',
    detail: ({ field, why }: { field: string; why: string }) => `${field}: ${why}`,
    fields: ['field'],
  },
  unauthenticated: {
    status: 401,
    what: 'the credential is not valid',
    next: 'check that the API key or access token is complete, current and not revoked',
  },
  forbidden: {
    status: 403,
    what: 'the credential does not allow this',
    next: 'ask the operator for a credential that does',
  },
  not_found: {
    status: 404,
    what: 'not found, or in another organisation',
    next: 'check the id and the credential’s organisation',
  },
  no_such_route: {
    status: 404,
    what: 'no such route',
    next: 'check the path; `/v1/openapi.json` and `/docs` have the routes of customers',
  },
  file_not_found: {
    status: 404,
    from: 'guest_files',
    what: 'there is no such file in the guest',
    next: 'check the path',
  },
  method_not_allowed: {
    status: 405,
    what: 'the path does not take this method',
    next: 'use a method that the `Allow` header names',
    detail: ({ allow }: { allow: string }) => `the path does not take this method; it takes ${allow}`,
  },
  stale_generation: {
    status: 409,
    what: 'the desktop is on another generation than `expected_generation`',
    next: 'read the desktop again, then retry',
    detail: ({ expected, current }: { expected: number; current: number }) =>
      `expected_generation is ${expected}, but the desktop is on generation ${current}; read the desktop again, then retry`,
  },
  wrong_state: { status: 409, what: 'the desktop’s state does not permit this', next: checkState, fields: ['state'] },
  not_awake: { status: 409, from: 'host', what: 'the desktop is not awake', next: 'wake it first', fields: ['state'] },
  guest_suspended: {
    status: 409,
    from: 'host',
    what: 'the guest has suspended itself, or was paused; the desktop hibernates with its memory',
    next: 'wake it',
  },
  operation_failed: {
    status: 409,
    what: 'the operation failed',
    next: 'act on `cause_code`; `operation_id` names the operation',
    fields: ['operation_id', 'cause_code'],
  },
  claim_held: {
    status: 409,
    what: 'another client holds the claim',
    next: 'retry later, or send `takeover: true`',
    detail: ({ claim, until }: { claim: string; until: string }) =>
      `another client holds the claim "${claim}", at least until ${until}; retry later, or send \`takeover: true\``,
    fields: ['claim', 'holder', 'since', 'human_active'],
  },
  screen_changed: {
    status: 409,
    what: 'the screen has another size than the request expects',
    next: 'take a screenshot, then retry with its coordinates',
    detail: ({ width, height }: { width: number; height: number }) =>
      `the screen has ${width} × ${height} pixels, not the size in \`expected_screen\`; take a screenshot, then retry with its coordinates`,
  },
  screen_too_large: {
    status: 409,
    from: 'host',
    what: 'the desktop’s screen has more than 11,059,200 pixels; there are no pictures of it and no input to it',
    next: 'set a smaller resolution in the desktop, then retry',
  },
  quota_exceeded: {
    status: 409,
    what: 'the organisation has as many desktops as it may have',
    next: 'destroy some, or ask the operator for more',
    detail: ({ limit }: { limit: number }) =>
      limit === 0
        ? 'this organisation may have no desktop; ask the operator for more'
        : `this organisation may have ${limit === 1 ? '1 desktop' : `${limit} desktops`} and has at least as many; destroy some, or ask the operator for more`,
  },
  conflict: { status: 409, from: 'host', what: 'it exists already, or is in use', next: 'check it, then retry' },
  would_lose: {
    status: 409,
    what: 'more desktops would be lost than `yes_lose` confirms',
    next: 'confirm with the number of desktops that may be lost',
    detail: ({ host, lost }: { host: string; lost: number }) =>
      `${host} has the only disk of ${lost} desktops; confirm with yes_lose`,
  },
  invite_spent: { status: 409, what: 'the invitation was used, or has expired', next: 'create a new one' },
  not_directory: {
    status: 409,
    from: 'guest_files',
    what: 'part of the path is not a directory in the guest',
    next: anotherPath,
  },
  is_directory: {
    status: 409,
    from: 'guest_files',
    what: 'the path is a directory in the guest',
    next: 'name a file in it',
  },
  not_regular: {
    status: 409,
    from: 'guest_files',
    what: 'the path is not a regular file in the guest',
    next: anotherPath,
  },
  symlink_loop: {
    status: 409,
    from: 'guest_files',
    what: 'the path leads into a loop of symbolic links in the guest',
    next: anotherPath,
  },
  permission_denied: {
    status: 409,
    from: 'guest_files',
    what: 'the guest’s file system denied access',
    next: anotherPath,
  },
  read_only: { status: 409, from: 'guest_files', what: 'the guest’s file system is read-only', next: anotherPath },
  no_space: { status: 409, from: 'guest_files', what: 'the guest’s disk is full', next: 'free space in the guest' },
  quota_exceeded_in_guest: {
    status: 409,
    from: 'guest_files',
    what: 'a quota of the guest’s file system is used up',
    next: 'remove files of the same owner, or raise the quota in the guest',
  },
  file_too_large: {
    status: 409,
    from: 'guest_files',
    what: 'the guest’s file system does not take a file of this size',
    next: 'choose a path on another file system, or a smaller file',
  },
  busy: {
    status: 409,
    from: 'guest_files',
    what: 'the file or folder is in use in the guest: it is a mount point, or a program that runs',
    next: 'unmount it or end the program; a command can write into a mounted file in place',
  },
  io_error: {
    status: 409,
    from: 'guest_files',
    what: 'the guest’s file system reports an input/output error',
    next: 'check the file system in the guest',
  },
  not_connected: {
    status: 409,
    from: 'guest_files',
    what: 'the guest’s file system at this path has lost its connection',
    next: 'mount it again in the guest',
  },
  file_refused: {
    status: 409,
    from: 'guest_files',
    what: 'the guest’s file system refused this',
    next: 'act on its message',
    detail: ({ error }: { error: string }) => `the guest’s file system refused this: ${error}`,
  },
  file_exists: {
    status: 409,
    from: 'guest_files',
    what: 'the path exists already in the guest',
    next: 'choose another path, or send `overwrite: true`',
  },
  not_empty: {
    status: 409,
    from: 'guest_files',
    what: 'the folder in the guest is not empty',
    next: 'send `recursive: true`',
  },
  upload_offset: {
    status: 409,
    from: 'host',
    what: 'the guest has another part of the upload than `Upload-Offset` says',
    next: 'go on from the `Upload-Offset` of this response, or ask for it with HEAD',
  },
  archive_unsupported: {
    status: 409,
    from: 'host',
    what: 'the guest has no tar, which packs and unpacks folders',
    next: 'install tar in the guest, or copy single files',
  },
  upload_lost: {
    status: 409,
    from: 'host',
    what: 'what was uploaded is no longer in the guest',
    next: 'begin another upload',
  },
  command_not_run: {
    status: 409,
    from: 'host',
    what: 'the guest could not start the command: no such program or folder, or no permission',
    next: 'check the command’s name and its folder',
  },
  exec_interrupted: {
    status: 409,
    from: 'host',
    what: 'the command had begun when its desktop went to sleep, moved or stopped, or when its guest fell silent',
    next: 'it goes on when the desktop wakes from memory; look at what it has done before you run it again',
    detail: ({ execId }: { execId: string }) =>
      `the command had begun when its desktop went to sleep, moved or stopped; wake the desktop, then send the request again with the same Idempotency-Key, or read exec ${execId}`,
    fields: ['exec_id'],
  },
  exec_unknown: {
    status: 404,
    from: 'host',
    what: 'the desktop keeps no such exec',
    next: 'check its id; what has ended is kept for 24 hours at most',
  },
  exec_limit: {
    status: 409,
    from: 'host',
    what: 'the desktop runs as many execs as it may',
    next: 'end some, or delete those that have ended',
  },
  exec_offset: {
    status: 409,
    what: 'the offset is beyond the end',
    next: 'go on from the end that the exec shows',
    detail: ({ offset, end }: { offset: number; end: number }) =>
      `the offset ${offset} is beyond the end, which is ${end}; go on from there`,
  },
  exec_input_closed: {
    status: 409,
    from: 'host',
    what: 'the command takes no more input',
    next: 'start it with open input',
  },
  exec_unsupported: {
    status: 409,
    from: 'host',
    what: 'the guest cannot keep execs: it has no writable folder that runs programs, or another processor than x86-64',
    next: 'use `exec`, or an image that can',
  },
  watch_limit: {
    status: 409,
    from: 'host',
    what: 'the desktop watches as many folders as it may',
    next: 'end some watches, or watch a smaller folder',
  },
  clipboard_unavailable: {
    status: 409,
    from: 'host',
    what: 'the desktop shares no clipboard: its image has none, or the clipboard’s program does not run in the guest',
    next: 'start `spice-vdagent` in the guest, or use an image whose manifest has `clipboard`',
  },
  cursor_gone: {
    status: 410,
    what: 'the log of events no longer reaches back to this cursor, or the cursor is of an earlier database',
    next: 'read the present state, then read on from `oldest_cursor` or without a cursor',
    fields: ['oldest_cursor'],
  },
  url_gone: {
    status: 410,
    what: 'the URL no longer opens this file',
    next: 'ask for another one',
    detail: ({ why }: { why: string }) => `the URL ${why}; ask for another one`,
  },
  payload_too_large: {
    status: 413,
    from: 'host',
    what: 'the body is too large',
    next: 'send less',
    detail: ({ maxBytes, instead }: { maxBytes: number; instead?: string }) =>
      `the body is too large; this route takes ${maxBytes} bytes at most${instead ? `; ${instead}` : ''}`,
  },
  unsupported_coding: {
    status: 415,
    what: 'the body is compressed or coded, which this service does not undo',
    next: 'send it as it is, without `Content-Encoding` and `Content-Transfer-Encoding`, and without any `Transfer-Encoding` but chunked',
  },
  range_not_satisfiable: {
    status: 416,
    what: 'the file has none of the bytes of the range',
    next: 'read its size in `Content-Range`, and ask for a range within it',
  },
  upgrade_required: { status: 426, what: 'this path serves WebSockets only', next: 'connect with a WebSocket client' },
  rate_limited: {
    status: 429,
    retryAfterSecs: 1,
    what: 'too many requests, connections or bytes in flight with this credential or from this address',
    next: 'slow down, then retry',
    detail: ({ perSecond }: { perSecond: number }) =>
      `more than ${perSecond} requests in a second; slow down, then retry`,
  },
  internal: {
    status: 500,
    what: 'internal error',
    next: retry,
    detail: ({ requestId }: { requestId: string }) =>
      `internal error; ask the operator, and quote request id ${requestId}`,
  },
  not_implemented: { status: 501, what: 'this is not implemented' },
  not_leader: {
    status: 503,
    overtakenBy: 'leader',
    retryAfterSecs: 1,
    what: 'this replica is not the leader',
    next: 'send the request again, to any replica',
  },
  database_unavailable: {
    status: 503,
    retried: 'always',
    retryAfterSecs: 2,
    spreads: true,
    what: 'the database is unavailable; nothing was changed',
    next: 'send the request again',
  },
  overloaded: {
    status: 503,
    retryAfterSecs: 30,
    what: 'the service has more requests than it can take now; nothing was changed',
    next: 'send the request again after `Retry-After`',
  },
  idp_unreachable: { status: 503, retryAfterSecs: 5, what: 'the identity provider does not respond', next: 'retry' },
  host_unreachable: {
    status: 503,
    from: 'host',
    retried: 'always',
    retryAfterSecs: 5,
    what: 'the desktop’s host is unreachable',
    next: retryWhenBack,
  },
  host_outdated: {
    status: 503,
    retryAfterSecs: 30,
    what: 'the desktop’s host runs an older release that does not know this; nothing was changed',
    next: 'send the request again when the host is upgraded',
  },
  guest_unavailable: {
    status: 503,
    from: 'host',
    retried: 'always',
    retryAfterSecs: 2,
    what: 'the guest does not respond',
    next: 'retry; if it stays silent, look at its screen, or hibernate the desktop and wake it',
  },
  pictures_busy: {
    status: 503,
    from: 'host',
    retryAfterSecs: 1,
    what: 'the desktop’s host makes as many pictures of screens as it can',
    next: 'retry, with fewer requests at once',
  },
  stopping: { status: 503, retryAfterSecs: 1, what: 'this replica is stopping', next: 'send the request again' },
  guest_deadline: {
    status: 504,
    from: 'host',
    retryAfterSecs: 1,
    what: 'the guest did not finish this before its deadline, and it was ended',
    next: 'allow more time, or do less at once',
    fields: ['stdout', 'stderr', 'stdout_truncated', 'stderr_truncated'],
  },

  // Why an operation fails.
  no_room: {
    status: 409,
    from: 'host',
    retried: 'while_hosts_return',
    fault: 'host',
    internalOnly: true,
    what: 'no host has capacity for this desktop now',
    next: 'retry later',
  },
  no_host: {
    status: 409,
    retried: 'while_hosts_return',
    internalOnly: true,
    what: 'no host can take this desktop now',
    next: 'retry later',
  },
  host_away: {
    status: 409,
    retried: 'while_hosts_return',
    internalOnly: true,
    what: 'the desktop’s host is unreachable, or cannot run it now',
    next: retryWhenBack,
  },
  image_unavailable: {
    status: 409,
    from: 'host',
    retried: 'while_hosts_return',
    fault: 'image',
    internalOnly: true,
    what: 'no host has the desktop’s image',
    next: 'create a desktop with another image, or ask the operator for this one',
  },
  image_not_fetched: {
    status: 409,
    from: 'host',
    fault: 'image',
    internalOnly: true,
    what: 'the desktop’s image could not be fetched',
    next: 'retry later',
  },
  image_unsuited: {
    status: 409,
    from: 'host',
    fault: 'image',
    internalOnly: true,
    what: 'the desktop’s image lacks what its guest must offer: QEMU’s guest agent, which runs programs, and OpenSSH’s sshd',
    next: 'create a desktop with another image, or ask the operator to mend this one',
  },
  memory_image_damaged: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the saved memory cannot be restored',
    next: fromDisk,
  },
  memory_image_missing: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the saved memory is missing on the host',
    next: fromDisk,
  },
  memory_lost: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the saved memory can no longer be used',
    next: fromDisk,
  },
  disk_missing: {
    status: 409,
    from: 'host',
    fault: 'host',
    internalOnly: true,
    what: 'the desktop’s disk is missing on its host',
    next: 'ask the operator',
  },
  host_disk_full: {
    status: 409,
    from: 'host',
    fault: 'host',
    internalOnly: true,
    what: 'the disk of the desktop’s host is full',
    next: 'retry later',
  },
  guest_silent: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the guest did not respond in time after it started',
    next: 'wake it again; if it stays silent, wake with `discard_memory` to boot from disk',
  },
  hypervisor_failed: {
    status: 409,
    from: 'host',
    fault: 'host',
    internalOnly: true,
    what: 'the desktop’s host failed to do this',
    next: retry,
  },
  not_idle: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the desktop was in use again before it could hibernate by itself',
    next: 'it stays awake',
  },
  moving: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the desktop is moving to another host',
    next: 'retry in a moment',
  },
  too_many_moves: {
    status: 409,
    from: 'host',
    retried: 'always',
    internalOnly: true,
    what: 'a host has as many moves in progress as it takes',
    next: 'retry later',
  },
  move_unreachable: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the two hosts of a move cannot reach each other',
    next: 'ask the operator',
  },
  move_not_converging: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the guest changes its memory faster than it can be moved; it runs on where it was',
    next: 'move it with `mode` `hibernate`',
  },
  host_removed: {
    status: 409,
    internalOnly: true,
    what: 'the desktop’s host was removed for good with its only disk: its data is lost',
    next: 'destroy the desktop and create another',
  },
  host_lost: {
    status: 409,
    internalOnly: true,
    what: 'the desktop’s host is lost with its only disk: its data is probably lost',
    next: 'destroy the desktop and create another, or ask the operator whether the host can be recovered',
  },
  superseded: {
    status: 409,
    from: 'host',
    overtakenBy: 'request',
    internalOnly: true,
    what: 'a later request replaced this one',
    next: checkState,
  },
  deadline_exceeded: {
    status: 409,
    internalOnly: true,
    what: 'the operation did not finish before its deadline',
    next: checkState,
  },

  waited_too_long: {
    status: 409,
    internalOnly: true,
    what: 'too many operations came before it, and it did not begin in time',
    next: 'retry later',
  },

  // What an agent answers to a command that is out of date.
  stale_epoch: {
    status: 409,
    from: 'host',
    overtakenBy: 'leader',
    internalOnly: true,
    what: 'the service’s leader changed meanwhile',
    next: 'retry',
  },
  stale_turn: {
    status: 409,
    from: 'host',
    overtakenBy: 'request',
    internalOnly: true,
    what: 'a later request for this desktop was carried out first',
    next: checkState,
  },
  unknown_desktop: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the desktop is no longer on its host',
    next: 'ask the operator',
  },
} as const satisfies Record<string, RefusalRow>

export type RefusalCode = keyof typeof refusals

export const refusalCode = z.enum(Object.keys(refusals) as [RefusalCode, ...RefusalCode[]])

/** What the table says of a code. */
export const factsOf = (code: RefusalCode): RefusalRow => refusals[code]

/** What happened, what was lost or kept if that is known, and what to do. The code may be another release's. */
export function messageOf(code: RefusalCode, lost?: string): string {
  const { what, next }: RefusalRow = refusals[code] ?? refusals.internal
  return [what, lost, next].filter(Boolean).join('; ')
}
