// Filters what a client sends to a screen, in RFB. A viewer may negotiate and request frames; keys, pointer, clipboard,
// size and everything else are dropped. Pure: bytes in, bytes out, wherever they are split.
import { clientMessageLength, clientMessages, type StreamClaim } from '@dormouse/contract'
import { isFollowed } from './rfb-encodings.ts'
import { RfbBreach, RfbTerms, type RfbVersion } from './rfb-terms.ts'

/** What passes of a viewer's message. All others are dropped. */
type Pass = (message: Buffer, terms: RfbTerms) => Buffer

const passes: Readonly<Record<number, Pass>> = {
  [clientMessages.setPixelFormat]: withPixels,
  [clientMessages.setEncodings]: withFollowedEncodings,
  [clientMessages.pictureRequest]: withPictures,
}

/** More encodings than any client has; bounds the buffer. */
const maxPassedBytes = 4 + 4 * 1_024

/** The length of the message that starts there; undefined if more bytes are needed. Throws RfbBreach on an unknown one. */
export function messageAt(bytes: Buffer, at: number): number | undefined {
  const length = clientMessageLength(bytes, at)
  if (length === 'unknown') throw new RfbBreach('an unknown message')
  return length === 'more' ? undefined : length
}

function withPixels(message: Buffer, terms: RfbTerms): Buffer {
  terms.request(message.subarray(4))
  return message
}

function withPictures(message: Buffer, terms: RfbTerms): Buffer {
  terms.settle()
  return message
}

/** Removes encodings that enable other forms of input, or messages that the other filter cannot follow. */
function withFollowedEncodings(message: Buffer, terms: RfbTerms): Buffer {
  terms.settle()
  const all = Array.from({ length: (message.length - 4) / 4 }, (_, i) => message.readInt32BE(4 + 4 * i))
  const kept = all.filter(isFollowed)
  const passed = Buffer.alloc(4 + 4 * kept.length)
  passed[0] = 2
  passed.writeUInt16BE(kept.length, 2)
  for (const [i, encoding] of kept.entries()) passed.writeInt32BE(encoding, 4 + 4 * i)
  return passed
}

type Phase = 'version' | 'security' | 'init' | 'messages'

export class RfbFilter {
  /** What was negotiated, for the filter of the other direction. */
  readonly terms = new RfbTerms()
  readonly #claim: StreamClaim
  readonly #heard: (messages: Buffer) => void
  #phase: Phase = 'version'
  /** Received bytes from the start of the incomplete message. */
  #kept: Buffer = Buffer.alloc(0)
  /** How far they are parsed. */
  #at = 0
  /** Remaining bytes of a message that is dropped. */
  #dropping = 0

  /** `heard` gets what a `control` client sends after the handshake. */
  constructor(claim: StreamClaim, heard: (messages: Buffer) => void = () => undefined) {
    this.#claim = claim
    this.#heard = heard
  }

  /** Returns what passes of these bytes and those kept before; throws RfbBreach on invalid ones. */
  pass(chunk: Buffer): Buffer {
    if (this.#phase === 'messages' && this.#claim === 'control') {
      this.#heard(chunk)
      return chunk
    }
    this.#kept = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    this.#at = 0
    const passed: Buffer[] = []
    for (let next = this.#next(); next !== undefined; next = this.#next()) passed.push(next)
    // A copy: the rest may be one byte of a chunk of megabytes.
    this.#kept = Buffer.from(this.#kept.subarray(this.#at))
    return passed.length === 1 ? passed[0]! : Buffer.concat(passed)
  }

  get #left(): number {
    return this.#kept.length - this.#at
  }

  /** The next part that passes; undefined if more bytes are needed. */
  #next(): Buffer | undefined {
    if (this.#phase === 'version') return this.#version()
    if (this.#phase === 'security') return this.#security()
    if (this.#phase === 'init') return this.#init()
    return this.#claim === 'control' ? this.#rest() : this.#message()
  }

  #rest(): Buffer | undefined {
    const rest = this.#left > 0 ? this.#take(this.#left) : undefined
    if (rest) this.#heard(rest)
    return rest
  }

  #version(): Buffer | undefined {
    const version = this.#take(12)
    if (!version) return undefined
    const minor = /^RFB 003\.00([378])\n$/.exec(version.toString('latin1'))?.[1]
    if (!minor) throw new RfbBreach('not a version of RFB')
    this.terms.version = minor as RfbVersion
    // Before 3.7 the server alone chooses the security type.
    this.#phase = minor === '3' ? 'init' : 'security'
    return version
  }

  #security(): Buffer | undefined {
    const choice = this.#take(1)
    if (!choice) return undefined
    if (choice[0] !== 1) throw new RfbBreach('the only security type is None')
    this.#phase = 'init'
    return choice
  }

  /** Always shared: an exclusive client would disconnect the others. */
  #init(): Buffer | undefined {
    if (!this.#take(1)) return undefined
    this.#phase = 'messages'
    return Buffer.from([1])
  }

  /** The next message that passes. Dropping must be cheap: a chunk may hold half a million dropped messages. */
  #message(): Buffer | undefined {
    for (;;) {
      this.#drop()
      const length = this.#left === 0 ? undefined : messageAt(this.#kept, this.#at)
      if (length === undefined) return undefined
      const pass = passes[this.#kept[this.#at]!]
      if (pass) return this.#whole(length, pass)
      this.#dropping = length
    }
  }

  #drop(): void {
    const here = Math.min(this.#dropping, this.#left)
    this.#dropping -= here
    this.#at += here
  }

  #whole(length: number, pass: Pass): Buffer | undefined {
    if (length > maxPassedBytes) throw new RfbBreach('a message that is too long')
    const message = this.#take(length)
    return message && pass(message, this.terms)
  }

  #take(length: number): Buffer | undefined {
    if (this.#left < length) return undefined
    this.#at += length
    return this.#kept.subarray(this.#at - length, this.#at)
  }
}
