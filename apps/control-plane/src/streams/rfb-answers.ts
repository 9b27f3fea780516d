// Filters what a screen sends to a viewer, in RFB (RFC 6143): pictures and bells pass, the clipboard does not, and an
// unknown message closes the screen.
import { bodies, lastRectangle, unknown } from './rfb-encodings.ts'
import { drop, pass, peek, type Script, ScriptedFilter } from './rfb-script.ts'
import type { RfbTerms } from './rfb-terms.ts'

/** Passes what a viewer may see; throws RfbBreach on a message of unknown length. */
export const answersToViewer = (terms: RfbTerms): ScriptedFilter => new ScriptedFilter(screen(terms))

function* screen(terms: RfbTerms): Script<never> {
  yield* introduction(terms)
  for (;;) yield* message(terms)
}

function* introduction(terms: RfbTerms): Script {
  yield pass(12)
  const [types] = yield peek(1)
  // The viewer chooses its version before the screen continues.
  if (terms.version === undefined) throw unknown('data before the version was chosen')
  if (terms.version === '3') yield* only(1)
  else yield* choice(types!)
  if (terms.version === '8') yield* only(0)
  const init = yield peek(24)
  terms.offer(init.subarray(4, 20))
  yield pass(24 + init.readUInt32BE(20))
}

function* only(value: number): Script {
  if ((yield peek(4)).readUInt32BE(0) !== value) throw unknown('that it requires authentication')
  yield pass(4)
}

function* choice(types: number): Script {
  if (types === 0) throw unknown('no')
  yield pass(1 + types)
}

function* message(terms: RfbTerms): Script {
  const [type] = yield peek(1)
  if (type === 0) yield* update(terms)
  // Bell
  else if (type === 2) yield pass(1)
  // ServerCutText; an extended one counts its bytes below zero.
  else if (type === 3) yield drop(8 + Math.abs((yield peek(8)).readInt32BE(4)))
  else throw unknown(`a message of type ${type}`)
}

function* update(terms: RfbTerms): Script {
  const count = (yield peek(4)).readUInt16BE(2)
  yield pass(4)
  for (let left = count; left > 0; left--) {
    const head = yield peek(12)
    const encoding = head.readInt32BE(8)
    const body = bodies[encoding] ?? unknownBody(encoding)
    yield pass(12)
    yield* body({ width: head.readUInt16BE(4), height: head.readUInt16BE(6) }, terms)
    if (encoding === lastRectangle) return
  }
}

function unknownBody(encoding: number): never {
  throw unknown(`a picture in the encoding ${encoding}`)
}
