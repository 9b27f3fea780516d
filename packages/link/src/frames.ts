// What one side of a link says to the other: values to text and back, nothing else.
// Pure: knows no socket, no call's meaning and no payload's shape.
import { FrameError } from './errors.ts'

/** What is said. `to` names, by its number, the call frame that is answered or cancelled. */
export type Saying =
  | { type: 'call'; name: string; payload: unknown; requestId?: string | undefined }
  | { type: 'reply'; to: number; payload: unknown }
  | { type: 'refused'; to: number; code: string; detail: string }
  | { type: 'failed'; to: number; incident: string }
  | { type: 'cancel'; to: number }
  | { type: 'event'; name: string; payload: unknown }

/** A saying with its number. Each side numbers its frames 1, 2, 3 …, so that a lost, doubled or swapped one is noticed. */
export type Frame = Saying & { n: number }

type Check = (value: unknown) => boolean

/** Names are repeated in answers and logs: what is longer is no name. */
const maxNameChars = 200

const isText: Check = (value) => typeof value === 'string'
const isShort: Check = (value) => typeof value === 'string' && value.length <= maxNameChars
const isName: Check = (value) => isShort(value) && value !== ''
const isNumber: Check = (value) => Number.isSafeInteger(value) && (value as number) > 0
const isShortOrAbsent: Check = (value) => value === undefined || isShort(value)

const fieldsOf: Record<Saying['type'], Record<string, Check>> = {
  call: { name: isName, requestId: isShortOrAbsent },
  reply: { to: isNumber },
  refused: { to: isNumber, code: isName, detail: isText },
  failed: { to: isNumber, incident: isShort },
  cancel: { to: isNumber },
  event: { name: isName },
}

/** What is said as text, yet without its number. Throws what JSON throws on a payload that is not JSON (a bigint, a cycle). */
export function encodeSaying(saying: Saying): string {
  return JSON.stringify(saying)
}

/** The frame that says it, as text. */
export function numbered(n: number, saying: string): string {
  return `{"n":${n},${saying.slice(1)}`
}

/** The frame that the text holds; throws FrameError where it holds none. Fields it does not know are left alone. */
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
  if (typeof type === 'string' && Object.hasOwn(fieldsOf, type)) return fieldsOf[type as Saying['type']]
  throw new FrameError('a frame must have a known "type"')
}
