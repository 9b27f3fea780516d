// What is sent to a supervisor that serves many operations over one stream, and its answers. The program's side:
// apps/agent/supervisor/serve.h. Pure.
import { BoundedBuffer } from '@dormouse/process'
import { expendable } from './command.ts'
import { badAnswer, execsIn, programIn } from './supervisor.ts'

/** The program takes no longer input. */
export const servedInputMaxBytes = 1024 * 1024
/** The longest is 720 KiB of output. */
const answerMaxBytes = 768 * 1024
const pieceMaxBytes = 4_000
const headMaxBytes = 32
const newline = 10

export const serveScript = (place: string): string => `${expendable}exec ${programIn(place)} ${execsIn(place)} serve`

/** A request: its tag is above zero, and no other that waits has it. */
export function servedRequest(tag: number, args: readonly (string | number)[], input = ''): Buffer {
  const words = args.map((arg) => `${arg}\0`).join('')
  return Buffer.from(`${tag} ${Buffer.byteLength(words)} ${Buffer.byteLength(input)}\n${words}${input}`)
}

/** Puts answers together from their pieces. A guest may send anything: `guest_unavailable` if that is no answer. */
export class ServedAnswers {
  /** What has come of each: a guest may send single bytes, so no piece is kept as an object. */
  readonly #gathered = new Map<number, BoundedBuffer>()
  #rest = Buffer.alloc(0)

  /** Before its request is sent: nothing else may be answered. */
  expect(tag: number): void {
    this.#gathered.set(tag, new BoundedBuffer(answerMaxBytes))
  }

  /** The answers that are whole with these bytes. */
  add(bytes: Buffer): { tag: number; answer: Buffer }[] {
    const received = Buffer.concat([this.#rest, bytes])
    const whole: { tag: number; answer: Buffer }[] = []
    let at = 0
    for (;;) {
      const head = headOf(received, at)
      if (!head || head.next + head.length > received.length) break
      const piece = received.subarray(head.next, head.next + head.length)
      at = head.next + head.length
      const gathered = this.#gathered.get(head.tag) ?? badAnswer()
      if (gathered.size + piece.length > answerMaxBytes) badAnswer()
      gathered.add(piece)
      if (head.length > 0) continue
      this.#gathered.delete(head.tag)
      whole.push({ tag: head.tag, answer: gathered.take() })
    }
    this.#rest = Buffer.from(received.subarray(at))
    return whole
  }
}

/** Undefined if it has not come whole. */
function headOf(received: Buffer, at: number): { tag: number; length: number; next: number } | undefined {
  const end = received.indexOf(newline, at)
  if (end < 0 && received.length - at <= headMaxBytes) return undefined
  const head = received.toString('latin1', at, end < 0 ? at : end)
  const [, tag, length] = /^(\d{1,15}) (\d{1,4})$/.exec(head) ?? badAnswer()
  if (Number(length) > pieceMaxBytes) badAnswer()
  return { tag: Number(tag), length: Number(length), next: end + 1 }
}
