// What a client says to a screen, in RFB, and what of it passes. A viewer negotiates and asks for frames; keys, pointer,
// clipboard, size and all else end here. Pure: bytes in, bytes out, wherever they are cut.
// RFC 6143, and the extensions that QEMU and noVNC know (github.com/rfbproto/rfbproto).
import type { StreamClaim } from '@dormouse/contract'
import { isFollowed } from './rfb-encodings.ts'
import { RfbBreach, RfbTerms, type RfbVersion } from './rfb-terms.ts'

interface Message {
  /** So many bytes tell how long it is. */
  head: number
  length: (head: Buffer) => number
  /** What a viewer's becomes; absent where it is dropped. */
  pass?: (message: Buffer, terms: RfbTerms) => Buffer
}

const fixed = (bytes: number): Pick<Message, 'head' | 'length'> => ({ head: 1, length: () => bytes })

/** What may be said once both sides have introduced themselves, by its first byte. */
const messages: Readonly<Record<number, Message>> = {
  /** SetPixelFormat */
  0: { ...fixed(20), pass: withPixels },
  /** SetEncodings */
  2: { head: 4, length: (head) => 4 + 4 * head.readUInt16BE(2), pass: withFollowedEncodings },
  /** FramebufferUpdateRequest */
  3: { ...fixed(10), pass: withPictures },
  /** KeyEvent */
  4: fixed(8),
  /** PointerEvent: never of 7 bytes, since the encoding that makes it so is not let through. */
  5: fixed(6),
  /** ClientCutText; an extended one counts its bytes below zero. */
  6: { head: 8, length: (head) => 8 + Math.abs(head.readInt32BE(4)) },
  /** EnableContinuousUpdates */
  150: fixed(10),
  /** ClientFence */
  248: { head: 9, length: (head) => 9 + head[8]! },
  /** xvp: shutdown, reboot, reset */
  250: fixed(4),
  /** SetDesktopSize */
  251: { head: 8, length: (head) => 8 + 16 * head[6]! },
  /** QEMU: extended keys, audio */
  255: { head: 4, length: qemuLength },
}

/** More encodings than anybody has; a bound on what is kept. */
const maxPassedBytes = 4 + 4 * 1_024

function withPixels(message: Buffer, terms: RfbTerms): Buffer {
  terms.wish(message.subarray(4))
  return message
}

function withPictures(message: Buffer, terms: RfbTerms): Buffer {
  terms.settle()
  return message
}

/** Without those after which a screen would listen for other forms of input, or say what nobody here can follow. */
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

function qemuLength(head: Buffer): number {
  const [, kind, , operation] = head
  if (kind === 0) return 12
  if (kind === 1) return operation === 2 ? 10 : 4
  throw new RfbBreach('an unknown message of QEMU’s')
}

type Phase = 'version' | 'security' | 'init' | 'messages'

export class RfbFilter {
  /** What was agreed on, for whoever follows what the screen answers. */
  readonly terms = new RfbTerms()
  readonly #claim: StreamClaim
  #phase: Phase = 'version'
  /** The beginning of what is not complete. */
  #kept: Buffer = Buffer.alloc(0)
  /** What is still to come of a message that is dropped. */
  #dropping = 0

  constructor(claim: StreamClaim) {
    this.#claim = claim
  }

  /** What may pass of these bytes and those kept before; throws RfbBreach on what cannot be read. */
  pass(chunk: Buffer): Buffer {
    if (this.#phase === 'messages' && this.#claim === 'control') return chunk
    this.#kept = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    const passed: Buffer[] = []
    for (let next = this.#next(); next !== undefined; next = this.#next()) passed.push(next)
    return passed.length === 1 ? passed[0]! : Buffer.concat(passed)
  }

  /** The next whole thing, or what is left of it; undefined where more bytes are needed. */
  #next(): Buffer | undefined {
    if (this.#phase === 'version') return this.#version()
    if (this.#phase === 'security') return this.#security()
    if (this.#phase === 'init') return this.#init()
    if (this.#claim === 'control') return this.#kept.length > 0 ? this.#take(this.#kept.length) : undefined
    return this.#message()
  }

  #version(): Buffer | undefined {
    const version = this.#take(12)
    if (!version) return undefined
    const minor = /^RFB 003\.00([378])\n$/.exec(version.toString('latin1'))?.[1]
    if (!minor) throw new RfbBreach('not a version of RFB')
    this.terms.version = minor as RfbVersion
    // Before 3.7 the server alone chooses, and nothing is said about it.
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

  /** Always shared: whoever comes alone would throw the others out. */
  #init(): Buffer | undefined {
    if (!this.#take(1)) return undefined
    this.#phase = 'messages'
    return Buffer.from([1])
  }

  #message(): Buffer | undefined {
    const nothing = this.#drop()
    if (nothing || this.#kept.length === 0) return nothing
    const message = messages[this.#kept[0]!]
    if (!message) throw new RfbBreach('an unknown message')
    if (this.#kept.length < message.head) return undefined
    const length = message.length(this.#kept)
    if (!message.pass) {
      this.#dropping = length
      return this.#drop()
    }
    if (length > maxPassedBytes) throw new RfbBreach('a message that is too long')
    const whole = this.#take(length)
    return whole && message.pass(whole, this.terms)
  }

  #drop(): Buffer | undefined {
    if (this.#dropping === 0) return undefined
    const here = Math.min(this.#dropping, this.#kept.length)
    this.#dropping -= here
    this.#kept = this.#kept.subarray(here)
    return this.#dropping === 0 ? Buffer.alloc(0) : undefined
  }

  #take(length: number): Buffer | undefined {
    if (this.#kept.length < length) return undefined
    const taken = this.#kept.subarray(0, length)
    this.#kept = this.#kept.subarray(length)
    return taken
  }
}
