// The filter of a screen's bytes for viewers, tried by itself: it passes no more than came, it makes no difference where the
// bytes are split, and what it cannot parse ends as a breach and as nothing else.
import { answersToViewer } from '@dormouse/control-plane/streams/rfb-answers.ts'
import { RfbFilter } from '@dormouse/control-plane/streams/rfb-filter.ts'
import { RfbBreach } from '@dormouse/control-plane/streams/rfb-terms.ts'
import type { Dice } from '../dice.ts'

/** In sentences; none if all is well. */
export function faultsOfFilter(bytes: Buffer, dice: Dice): string[] {
  const whole = passed(bytes, () => bytes.length)
  const inPieces = passed(bytes, () => 1 + dice.int(dice.pick([2, 20, 2_000])))
  const found = [whole, inPieces].flatMap(({ fault }) => fault ?? [])
  if (inPieces.bytes.length > bytes.length) found.push('more passes than came')
  // What cannot be followed takes its whole piece with it.
  const same = whole.breached || whole.bytes.equals(inPieces.bytes)
  if (whole.breached !== inPieces.breached || !same) found.push('what passes depends on where it is cut')
  return found
}

interface Passed {
  bytes: Buffer
  breached: boolean
  fault?: string
}

function passed(bytes: Buffer, pieceBytes: () => number): Passed {
  const said = new RfbFilter('view')
  const filter = answersToViewer(said.terms)
  const parts = [said.pass(Buffer.from('RFB 003.008\n\x01\x01'))].slice(1)
  try {
    for (let at = 0; at < bytes.length; ) {
      const piece = bytes.subarray(at, at + pieceBytes())
      at += piece.length
      parts.push(filter.pass(piece))
    }
  } catch (error) {
    const breached = { bytes: Buffer.concat(parts), breached: true }
    return error instanceof RfbBreach ? breached : { ...breached, fault: `the filter failed: ${error}` }
  }
  return { bytes: Buffer.concat(parts), breached: false }
}
