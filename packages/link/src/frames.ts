// The frames of a link, as values and as text. Pure: knows no socket, no call's meaning and no payload's shape.
import { FrameError } from './errors.ts'

/** What a frame carries. `to` is the number of the call frame that it answers or cancels. */
export type Message =
  | { type: 'call'; name: string; payload: unknown; requestId?: string | undefined; traceparent?: string | undefined }
  | { type: 'reply'; to: number; payload: unknown }
  | { type: 'refused'; to: number; code: string; detail: string }
  | { type: 'failed'; to: number; incident: string }
  | { type: 'cancel'; to: number }
  | { type: 'event'; name: string; payload: unknown }

/** A message with its number. Each side numbers its frames 1, 2, 3 …, so that a lost, repeated or reordered one is detected. */
export type Frame = Message & { n: number }

type Check = (value: unknown) => boolean

/** Names are repeated in replies and logs, so their length is limited. */
const maxNameChars = 200

const isText: Check = (value) => typeof value === 'string'
const isShort: Check = (value) => typeof value === 'string' && value.length <= maxNameChars
const isName: Check = (value) => isShort(value) && value !== ''
const isNumber: Check = (value) => Number.isSafeInteger(value) && (value as number) > 0
const isShortOrAbsent: Check = (value) => value === undefined || isShort(value)

const fieldsOf: Record<Message['type'], Record<string, Check>> = {
  call: { name: isName, requestId: isShortOrAbsent, traceparent: isShortOrAbsent },
  reply: { to: isNumber },
  refused: { to: isNumber, code: isName, detail: isText },
  failed: { to: isNumber, incident: isShort },
  cancel: { to: isNumber },
  event: { name: isName },
}

/** The message as text, without a number. Throws what JSON throws on a payload that is not JSON (a bigint, a cycle). */
export function encodeMessage(message: Message): string {
  return JSON.stringify(message)
}

/** The frame as text. */
export function numbered(n: number, message: string): string {
  return `{"n":${n},${message.slice(1)}`
}

/** Throws FrameError if the text is not a frame. Unknown fields are kept. */
export function decodeFrame(text: string): Frame {
  const value = parse(text)
  if (typeof value !== 'object' || value === null) throw new FrameError('a frame must be an object')
  const frame = value as Record<string, unknown>
  if (!isNumber(frame.n)) throw new FrameError('a frame must carry its number in "n"')
  for (const [field, check] of Object.entries(fieldsFor(frame.type))) {
    if (!check(frame[field])) throw new FrameError(`a ${frame.type} frame has no valid "${field}"`)
  }
  return frame as Frame
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new FrameError('a frame must be JSON')
  }
}

function fieldsFor(type: unknown): Record<string, Check> {
  if (typeof type === 'string' && Object.hasOwn(fieldsOf, type)) return fieldsOf[type as Message['type']]
  throw new FrameError('a frame must have a known "type"')
}
