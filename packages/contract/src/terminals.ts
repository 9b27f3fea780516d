// An exec over one WebSocket: `GET /v1/desktops/{id}/execs/{exec}/attach`. What client and service send each other
// (docs/terminals.md). Each message is a binary frame whose first byte names its channel.
import { z } from 'zod'
import { type ExecStateJson, type ExecStream, terminalSize } from './execs.ts'
import { screenCloses } from './screens.ts'
import type { WokeJson } from './wake-on-use.ts'

/** The subprotocol. A client need not offer it. */
export const attachProtocol = 'dormouse.exec.v1'
/** Followed by the credential in base64url, a subprotocol of clients that cannot send headers, such as browsers. */
export const attachBearerPrefix = 'dormouse.bearer.'
/** Followed by `allow` or `never`, the same for the header `Dormouse-Wake`. */
export const attachWakePrefix = 'dormouse.wake.'

/** A message of `control` is JSON: an `AttachNote` from the service, an `attachRequest` from the client. */
export const attachChannels = { stdin: 0, stdout: 1, stderr: 2, control: 3 } as const

/** The service closes the socket of a client that sends more input than this beyond what was accepted. */
export const attachInputMaxBytes = 256 * 1024
export const attachAliveEveryMs = 5_000

const { asleep, destroyed, revoked, hostLost, moved } = screenCloses
/** Close codes; the same as those of screens if they mean the same. 1000: the exec has ended, and `exit` was sent. */
export const attachCloses = { asleep, destroyed, revoked, hostLost, moved, deleted: 4007 } as const

const bytes = z
  .string()
  .regex(/^\d{1,15}$/, 'must be a number of bytes')
  .transform(Number)
  .pipe(z.int())
  .meta({ type: 'integer', minimum: 0 })

export const attachQuery = z.object({
  offset: bytes.optional().describe('Of the first byte of stdout; default 0. What was dropped is skipped'),
  stderr_offset: bytes.optional().describe('The same of stderr. A terminal has none'),
  window: bytes
    .pipe(z.int().min(65_536, 'must be at least 65536').max(16_777_216, 'must be at most 16777216'))
    .optional()
    .describe('Bytes of each stream that may be sent beyond what `read` confirms; by default TCP alone limits them'),
})

const offset = z.int().min(0).max(Number.MAX_SAFE_INTEGER)

/** What a client sends on `control`. */
export const attachRequest = z.union(
  [
    z.strictObject({ resize: terminalSize }),
    z.strictObject({ signal: z.int().min(1).max(64) }),
    z.strictObject({ eof: z.literal(true) }),
    z.strictObject({ read: z.strictObject({ stdout: offset.optional(), stderr: offset.optional() }) }),
  ],
  'must be one of resize, signal, eof and read',
)
export type AttachRequest = z.infer<typeof attachRequest>

/** What the service sends on `control`. Clients ignore unknown notes. */
export type AttachNote =
  /** The first message. Offsets of the first bytes in each direction, and `woke` if the desktop was asleep. */
  | { attached: { exec: ExecStateJson; stdin: number; stdout: number; stderr: number; woke?: WokeJson } }
  /** Input before this offset is the guest's. With `closed`, the command takes no more. */
  | { accepted: number; closed?: true }
  /** Bytes were dropped: the stream goes on at this offset. */
  | { skipped: { stream: ExecStream; offset: number } }
  /** Every five seconds. */
  | { alive: true }
  /** Everything was sent, and the exec has ended. The last message. */
  | { exit: ExecStateJson }
  /** The socket closes before the exec has ended; `cause` is the reason. The last message. */
  | {
      end: {
        cause: 'asleep' | 'destroyed' | 'revoked' | 'expired' | 'hostLost' | 'moved' | 'deleted' | 'busy' | 'unreadable'
        why: string
      }
    }
