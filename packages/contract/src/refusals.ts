// The one table of refusals: code, status, what happened and what to do. `docs/refusals.md` is made from it.
import { z } from 'zod'
import { operationRefusals } from './operation-refusals.ts'
import type { RefusalRow } from './refusal-row.ts'

const retry = 'retry, and ask the operator if it fails again'
const retryWhenBack = 'retry when the host is back'
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
  not_allowed: {
    status: 403,
    what: 'the credential lacks a right that this needs, which `right` names',
    next: 'use a key that has it',
    detail: ({ right }: { right: string }) =>
      `this needs the right \`${right}\`, which the credential lacks; use a key that has it`,
    fields: ['right'],
  },
  org_suspended: {
    status: 403,
    what: 'the organisation is suspended: its desktops sleep and keep everything',
    next: 'ask the operator to resume it',
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
    what: 'the path does not support this method',
    next: 'use a method that the `Allow` header names',
    detail: ({ allow }: { allow: string }) => `the path does not support this method; it supports ${allow}`,
  },
  stale_generation: {
    status: 409,
    what: '`expected_generation` is outdated',
    next: 'read the desktop again, then retry',
    detail: ({ expected, current }: { expected: number; current: number }) =>
      `expected_generation is ${expected}, but the desktop is on generation ${current}; read the desktop again, then retry`,
  },
  name_taken: {
    status: 409,
    what: 'another desktop has this name',
    next: 'choose another name, or use the desktop that `desktop_id` names',
    fields: ['desktop_id'],
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
    what: 'the size of the screen differs from `expected_screen`',
    next: 'take a screenshot, then retry with its coordinates',
    detail: ({ width, height }: { width: number; height: number }) =>
      `the screen has ${width} × ${height} pixels, not the size in \`expected_screen\`; take a screenshot, then retry with its coordinates`,
  },
  screen_too_large: {
    status: 409,
    from: 'host',
    what: 'the desktop’s screen has more than 11,059,200 pixels, which is the limit for screenshots and input',
    next: 'set a smaller resolution in the desktop, then retry',
  },
  quota_exceeded: {
    status: 409,
    what: 'the organisation has reached its limit of desktops',
    next: 'destroy some, or ask the operator for more',
    detail: ({ limit, quota }: { limit: number; quota?: string }) => {
      const whose = quota === undefined ? 'organisation' : `quota \`${quota}\``
      if (limit === 0) return `the ${whose}’s limit is 0 desktops; ask the operator to raise it`
      const some = quota === undefined ? 'some' : 'some that it counts, as `GET /v1/quotas` shows'
      return `the ${whose} has reached its limit of ${limit === 1 ? '1 desktop' : `${limit} desktops`}; destroy ${some}, or ask the operator for more`
    },
    fields: ['quota'],
  },
  conflict: { status: 409, from: 'host', what: 'it already exists or is in use', next: 'check it, then retry' },
  would_lose: {
    status: 409,
    what: 'more desktops would be lost than `yes_lose` confirms',
    next: 'confirm with the number of desktops that may be lost',
    detail: ({ host, lost }: { host: string; lost: number }) =>
      `${host} has the only disk of ${lost} desktops; confirm with yes_lose`,
  },
  invite_spent: { status: 409, what: 'the invitation was already used or has expired', next: 'create a new one' },
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
    what: 'the path contains a loop of symbolic links in the guest',
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
    what: 'the file is too large for the guest’s file system',
    next: 'choose a path on another file system, or a smaller file',
  },
  busy: {
    status: 409,
    from: 'guest_files',
    what: 'the file or folder is in use in the guest: it is a mount point or a running program',
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
    what: 'the path already exists in the guest',
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
    what: '`Upload-Offset` does not match what the guest has of the upload',
    next: 'continue from the `Upload-Offset` of this response, or read it with HEAD',
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
    what: 'the uploaded data is no longer in the guest',
    next: 'start the upload again',
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
    what: 'the desktop went to sleep, moved or stopped while the command ran, or its guest stopped responding',
    next: 'the command continues if the desktop wakes from memory; check what it has done before you run it again',
    detail: ({ execId }: { execId: string }) =>
      `the desktop went to sleep, moved or stopped while the command ran; wake it, then send the request again with the same Idempotency-Key, or read exec ${execId}`,
    fields: ['exec_id'],
  },
  exec_unknown: {
    status: 404,
    from: 'host',
    what: 'the desktop has no such exec',
    next: 'check its id; an exec that has ended is kept for at most 24 hours',
  },
  exec_limit: {
    status: 409,
    from: 'host',
    what: 'the desktop has reached its limit of execs',
    next: 'end some, or delete those that have ended',
  },
  exec_offset: {
    status: 409,
    what: 'the offset is beyond the end',
    next: 'continue from the end that the exec shows',
    detail: ({ offset, end }: { offset: number; end: number }) =>
      `the offset ${offset} is beyond the end, ${end}; continue from there`,
  },
  exec_input_closed: {
    status: 409,
    from: 'host',
    what: 'the command’s input is closed',
    next: 'start it with open input',
  },
  exec_unsupported: {
    status: 409,
    from: 'host',
    what: 'the guest cannot keep execs: it has no writable folder from which programs may run, or its processor is not x86-64',
    next: 'use `exec`, or an image that supports them',
  },
  watch_limit: {
    status: 409,
    from: 'host',
    what: 'the desktop has reached its limit of watched folders',
    next: 'end some watches, or watch a smaller folder',
  },
  clipboard_unavailable: {
    status: 409,
    from: 'host',
    what: 'the desktop has no shared clipboard: its image has none, or the clipboard’s program does not run in the guest',
    next: 'start `spice-vdagent` in the guest, or use an image whose manifest has `clipboard`',
  },
  cursor_gone: {
    status: 410,
    what: 'events after this cursor are no longer kept, or the cursor belongs to an earlier database',
    next: 'read the current state, then continue from `oldest_cursor` or without a cursor',
    fields: ['oldest_cursor'],
  },
  url_gone: {
    status: 410,
    what: 'the URL is no longer valid',
    next: 'ask for another one',
    detail: ({ why }: { why: string }) => `the URL ${why}; ask for another one`,
  },
  payload_too_large: {
    status: 413,
    from: 'host',
    what: 'the body is too large',
    next: 'send less',
    detail: ({ maxBytes, instead }: { maxBytes: number; instead?: string }) =>
      `the body is too large; this route accepts at most ${maxBytes} bytes${instead ? `; ${instead}` : ''}`,
  },
  unsupported_coding: {
    status: 415,
    what: 'the body is compressed or encoded, which is not supported',
    next: 'send it without `Content-Encoding` and `Content-Transfer-Encoding`, and with no `Transfer-Encoding` other than chunked',
  },
  range_not_satisfiable: {
    status: 416,
    what: 'the range is outside the file',
    next: 'read its size in `Content-Range`, and request a range within it',
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
  replica_outdated: {
    status: 503,
    overtakenBy: 'leader',
    retryAfterSecs: 5,
    what: 'the database was upgraded for a newer release than this replica’s, which changes nothing until it is upgraded, too',
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
    what: 'the service is overloaded; nothing was changed',
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
    what: 'the desktop’s host runs an older release that does not support this; nothing was changed',
    next: 'send the request again after the host is upgraded',
  },
  guest_unavailable: {
    status: 503,
    from: 'host',
    retried: 'always',
    retryAfterSecs: 2,
    what: 'the guest does not respond',
    next: 'retry; if it still does not respond, look at its screen, or hibernate the desktop and wake it',
  },
  pictures_busy: {
    status: 503,
    from: 'host',
    retryAfterSecs: 1,
    what: 'the desktop’s host has reached its limit of concurrent screenshots',
    next: 'retry, with fewer requests at once',
  },
  stopping: { status: 503, retryAfterSecs: 1, what: 'this replica is stopping', next: 'send the request again' },
  guest_deadline: {
    status: 504,
    from: 'host',
    retryAfterSecs: 1,
    what: 'the guest did not finish this before the deadline, so it was stopped',
    next: 'allow more time, or do less at once',
    fields: ['stdout', 'stderr', 'stdout_truncated', 'stderr_truncated'],
  },

  ...operationRefusals,
} as const satisfies Record<string, RefusalRow>

export type RefusalCode = keyof typeof refusals

export const refusalCode = z.enum(Object.keys(refusals) as [RefusalCode, ...RefusalCode[]])

/** The row of a code. */
export const factsOf = (code: RefusalCode): RefusalRow => refusals[code]

/** What happened, what was lost or kept if that is known, and what to do. A code of another release is possible. */
export function messageOf(code: RefusalCode, lost?: string): string {
  const { what, next }: RefusalRow = refusals[code] ?? refusals.internal
  return [what, lost, next].filter(Boolean).join('; ')
}
