// Types a text of any length, in batches that take less time than a batch may.
import { InvalidRequestError } from './errors.ts'

/** A batch takes 60 s at most. A character takes six events at most: two modifiers and a key, down and up. */
const [batchMs, eventsEach, defaultPaceMs] = [50_000, 6, 20]

export interface Piece {
  text: string
  /** How many characters come before it. */
  offset: number
  isLast: boolean
}

/**
 * Sends the pieces one after the other, and stops at the first whose outcome is not `done`. Returns the last result. What is pasted
 * takes longer than keys do: a piece that the service refuses for its time is sent in halves.
 */
export async function typeInPieces<R extends { outcome: string }>(
  text: string,
  paceMs: number | undefined,
  send: (piece: Piece) => Promise<R>,
): Promise<R> {
  // Whole characters.
  const chars = [...text.normalize('NFC')]
  if (chars.length === 0) throw new TypeError('the text is empty')
  let size = Math.max(1, Math.floor(batchMs / (eventsEach * (paceMs ?? defaultPaceMs))))
  for (let offset = 0; ; ) {
    const piece = chars.slice(offset, offset + size)
    const isLast = offset + piece.length === chars.length
    const result = await send({ text: piece.join(''), offset, isLast }).catch((error: unknown) => {
      if (piece.length === 1 || !isTooLong(error)) throw error
    })
    if (!result) size = Math.ceil(piece.length / 2)
    else if (isLast || result.outcome !== 'done') return result
    else offset += piece.length
  }
}

/** Under this name, only the time of a single action is refused. */
const isTooLong = (error: unknown): boolean =>
  error instanceof InvalidRequestError && error.problem?.field === 'actions'
