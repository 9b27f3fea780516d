// What a client sends to a screen, in whole messages. Remembers what the client holds down, so that it can be released at any
// time. Pure: bytes in, bytes out, wherever they are split.
import { clientMessageLength, clientMessages, extendedMouseButtons } from '@dormouse/contract'

const { setEncodings, key, pointer, cutText, power, setSize, qemu } = clientMessages
/** What a client that has lost its input may not send. */
const inputs: ReadonlySet<number> = new Set([key, pointer, cutText, power, setSize])
/** QEMU takes no longer text. */
const longestBytes = 1024 * 1024 + 64
const [versionBytes, pointerBytes] = [12, 6]

export class ClientInput {
  /** Received bytes from the start of an incomplete message. */
  #kept: Buffer = Buffer.alloc(0)
  /** Lengths of what comes before the messages: the version, then the security type and `shared`. */
  #introduction: number[] = [versionBytes]
  /** What releases each key that is held, the first one first. */
  readonly #held = new Map<string, Buffer>()
  /** The last pointer message that has passed. */
  #pointer: Buffer = Buffer.from([pointer, 0, 0, 0, 0, 0])
  /** Keys and buttons that were released although the client still holds them: they stay released until it lets go. */
  readonly #lifted = new Set<string>()
  #liftedMask = 0
  /** The client's input is dropped. */
  isMuted = false

  /** What goes to the screen of these bytes and those kept before; throws for what is no message of a client. */
  pass(chunk: Buffer): Buffer {
    const bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    const passed: Buffer[] = []
    let at = 0
    for (let length = this.#lengthAt(bytes, at); length !== undefined; length = this.#lengthAt(bytes, at)) {
      const message = bytes.subarray(at, at + length)
      const next = this.#introduction.length > 0 ? this.#introduce(message) : this.#message(message)
      if (next) passed.push(next)
      at += length
    }
    // A copy: the rest may be one byte of a large chunk.
    this.#kept = Buffer.from(bytes.subarray(at))
    return passed.length === 1 ? passed[0]! : Buffer.concat(passed)
  }

  /** The messages that release what the client holds, the last key first; empty if it holds nothing. */
  release(): Buffer[] {
    const ups = [...this.#held.values()].toReversed()
    for (const held of this.#held.keys()) this.#lifted.add(held)
    this.#held.clear()
    const mask = this.#pointer[1]!
    if (mask === 0) return ups
    this.#liftedMask |= mask
    this.#pointer = withMask(this.#pointer, 0)
    return [...ups, this.#pointer]
  }

  /** The length of the next message; undefined if it is not whole. */
  #lengthAt(bytes: Buffer, at: number): number | undefined {
    const available = bytes.length - at
    if (available === 0) return undefined
    const length = this.#introduction[0] ?? clientMessageLength(bytes, at)
    if (length === 'unknown') throw new Error('the client sent a message that is not known')
    if (length === 'more') return undefined
    if (length > longestBytes) throw new Error('the client sent a message that is too long')
    return available < length ? undefined : length
  }

  /** Before RFB 3.7 the client chooses no security type. */
  #introduce(part: Buffer): Buffer {
    this.#introduction.shift()
    if (part.length === versionBytes) this.#introduction = part.toString('latin1') === 'RFB 003.003\n' ? [1] : [1, 1]
    return part
  }

  #message(message: Buffer): Buffer | undefined {
    const type = message[0]!
    if (type === key) return this.#key(`keysym ${message.readUInt32BE(4)}`, message[1] !== 0, message, 1)
    if (type === qemu && message[1] === 0)
      return this.#key(`scancode ${message.readUInt32BE(8)}`, message.readUInt16BE(2) !== 0, message, 3)
    if (type === pointer) return this.#point(message)
    if (type === setEncodings) return withoutExtendedPointer(message)
    return this.isMuted && inputs.has(type) ? undefined : message
  }

  /** `downAt`: if the message says that the key is down. */
  #key(name: string, isDown: boolean, message: Buffer, downAt: number): Buffer | undefined {
    const wasLifted = this.#lifted.has(name)
    if (!isDown) this.#lifted.delete(name)
    // Its release may not pass either: a batch may hold the same key by now.
    if (this.isMuted || wasLifted) return undefined
    this.#held.delete(name)
    if (isDown) {
      const up = Buffer.from(message)
      up[downAt] = 0
      this.#held.set(name, up)
    }
    return message
  }

  #point(message: Buffer): Buffer | undefined {
    const mask = message[1]!
    this.#liftedMask &= mask
    if (this.isMuted) return undefined
    this.#pointer = withMask(message, mask & ~this.#liftedMask)
    return this.#pointer
  }
}

/** A copy: it outlives its chunk. */
function withMask(message: Buffer, mask: number): Buffer {
  const copy = Buffer.from(message.subarray(0, pointerBytes))
  copy[1] = mask
  return copy
}

/** With it, the length of a pointer message would depend on the screen. */
function withoutExtendedPointer(message: Buffer): Buffer {
  const copy = Buffer.from(message)
  for (let at = 4; at + 4 <= copy.length; at += 4)
    if (copy.readInt32BE(at) === extendedMouseButtons) copy.writeInt32BE(0, at)
  return copy
}
