// What the control plane asks of a guest, by two commands of the link: calls, and streams of bytes. The body that the API documents is
// the body that travels: the control plane adds what it has decided, and its host's answer is what the API returns.
import { z } from 'zod'
import { durationSecs, listOf } from './bounds.ts'
import {
  changedEntryJson,
  changeEntryBody,
  entriesDepthMax,
  entriesJson,
  entriesLimitMax,
  entryAfter,
  entryJson,
} from './entries.ts'
import { execReadMaxBytes, execSignalBody, execStateJson, execStream, startExecBody, terminalSize } from './execs.ts'
import { execBody, execJson, ownerName, variables } from './guest.ts'
import { id } from './ids.ts'
import { channelToken } from './moves.ts'
import { byteRange } from './ranges.ts'
import { uploadState, uploadSteps } from './uploads.ts'
import { seenChanges, watchedFolder } from './watches.ts'

const bytes = z.int().min(0)
const base64 = z.base64().max(1_048_576)
const waitMs = z.int().min(0).max(60_000)
const one = z.object({ id })
const nothing = z.object({})
/** More than a guest keeps. */
const mostExecs = 2_000
/** Absolute, in the guest. */
const path = z.string()
const modeBits = z.int().min(0).max(0o7777)

export const guestCalls = {
  /** Runs a command to its end. */
  exec: {
    body: execBody.safeExtend({ timeout_secs: durationSecs }),
    /** If it reached its timeout, this is what it had printed. */
    result: execJson.extend({ timed_out: z.literal(true).optional() }),
  },
  /** It has been started, once: the same id again changes nothing. */
  'exec.start': { body: startExecBody.safeExtend({ id, env: variables }), result: execStateJson },
  'exec.list': { body: nothing, result: z.object({ execs: listOf(execStateJson, mostExecs) }) },
  'exec.get': { body: one, result: execStateJson },
  /** Bytes from `offset`, or from the first that is kept; waits for them at most this long. */
  'exec.read': {
    body: one.extend({
      stream: execStream,
      offset: bytes,
      max_bytes: z.int().min(1).max(execReadMaxBytes),
      wait_ms: waitMs,
    }),
    result: z.object({ exec: execStateJson, offset: bytes, data: base64 }),
  },
  /** The bytes before the end are skipped. A `gap` has taken nothing. */
  'exec.write': {
    body: one.extend({ offset: bytes, data: base64, eof: z.boolean(), wait_ms: waitMs }),
    result: z.object({ end: bytes, gap: z.boolean() }),
  },
  'exec.signal': { body: execSignalBody.extend({ id }), result: execStateJson },
  'exec.resize': { body: terminalSize.extend({ id }), result: execStateJson },
  /** It has ended, and nothing is kept of it. If there is none, it is removed already. */
  'exec.remove': { body: one, result: nothing },
  /** The folder is watched: what happens from now on can be read. */
  'watch.start': { body: watchedFolder.extend({ id }), result: z.object({ next: bytes }) },
  /** What happened behind the offset; waits for it at most this long. */
  'watch.read': { body: one.extend({ offset: bytes, wait_ms: waitMs }), result: seenChanges },
  /** It has ended. */
  'watch.remove': { body: one, result: nothing },
  /** A page of entries of a folder. At `depth` 0, the path itself; no link is followed then. */
  'entry.list': {
    body: z.object({
      path,
      depth: z.int().min(0).max(entriesDepthMax),
      cursor: entryAfter.nullable(),
      limit: z.int().min(1).max(entriesLimitMax),
    }),
    result: entriesJson.extend({ entries: listOf(entryJson, entriesLimitMax) }),
  },
  /** Changes a file, folder or link. Not idempotent: a repeat may find its own effect. */
  'entry.change': { body: changeEntryBody, result: changedEntryJson },
  /** A step of an upload. An append in progress is ended first, and what has come is kept. */
  'upload.step': {
    body: z.object({
      id,
      path,
      step: z.enum(uploadSteps),
      size: bytes.nullable(),
      mode: modeBits.nullable(),
      owner: ownerName.nullable(),
    }),
    result: uploadState,
  },
} as const

export type GuestCallName = keyof typeof guestCalls
export type GuestCallBody<N extends GuestCallName> = z.infer<(typeof guestCalls)[N]['body']>
export type GuestCallResult<N extends GuestCallName> = z.infer<(typeof guestCalls)[N]['result']>

export const guestStreams = {
  /** Behind a `RangeHead`. Without a range, all of it; so is a file of another version than `if_version`. */
  'file.read': { body: z.object({ path, range: byteRange.nullable(), if_version: z.string().max(100).nullable() }) },
  /** The file is there, whole; until then the old one is. No mode: that of the file, or 0644. No owner: that of the folder. */
  'file.write': { body: z.object({ path, mode: modeBits.nullable(), owner: ownerName.nullable() }) },
  /** Written at the offset. Refused with `upload_offset` if the temporary file has another size. */
  'upload.append': { body: z.object({ path, id, offset: bytes }) },
  /** A tar archive of the folder. */
  'archive.read': { body: z.object({ path }) },
  /** What the archive holds is in the folder; nothing is, unless all of it has come. */
  'archive.write': { body: z.object({ path, owner: ownerName.nullable() }) },
} as const

export type GuestStreamName = keyof typeof guestStreams
export type GuestStreamBody<N extends GuestStreamName> = z.infer<(typeof guestStreams)[N]['body']>

const names = <T extends string>(table: Record<T, unknown>) => z.enum(Object.keys(table) as [T, ...T[]])
const inGuest = z.object({ desktopId: id, generation: z.int() })

/** The link's commands. The body is validated by its call's own schema, and so is the result. */
export const guestCommands = {
  'guest.call': {
    payload: inGuest.extend({ call: names(guestCalls), body: z.unknown(), timeoutSecs: durationSecs }),
    result: z.unknown(),
  },
  /** The bytes go over the channel, which the host dials once the file or folder is open. Returns how many there were. */
  'guest.stream': {
    payload: inGuest.extend({
      stream: names(guestStreams),
      body: z.unknown(),
      channel: channelToken,
      /** How long one step may take: opening the file, one chunk, moving it into place. */
      stepTimeoutSecs: durationSecs,
      /** How long it may wait for other transfers. */
      queueTimeoutSecs: durationSecs,
    }),
    result: z.object({ size: bytes }),
  },
} as const

/** What logs and metrics call a command: of a call or stream of a guest, its own name. */
export function commandLabel(name: string, payload: object): string {
  if (name === 'guest.call' && 'call' in payload) return String(payload.call)
  if (name === 'guest.stream' && 'stream' in payload) return String(payload.stream)
  return name
}
