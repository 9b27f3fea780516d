// What is sent to the program that serves calls in a guest, and its answers. The program's side: apps/agent/supervisor/serve.h. Pure.
import { BoundedBuffer } from '@dormouse/process'
import type { GuestCall } from '../driver/guest-transport.ts'
import { argument, quote } from './quote.ts'
import { badAnswer, programIn, supervisorPlaces } from './supervisor.ts'

/** The longest is a command's output, with one byte more than is kept of each of its streams. */
const answerMaxBytes = 2 * 1024 * 1024 + 64 * 1024
const pieceMaxBytes = 32 * 1024
const headMaxBytes = 32
const newline = 10

/** Exit code of the script if the guest does not have the program. */
export const noProgramCode = 96

/** With these, each bash of a command would act as a login shell and print its greeting. */
const unsetSsh = 'unset SSH_CLIENT SSH_CONNECTION SSH_TTY SHLVL'

/** A guest that runs out of memory ends the commands, not the server that the program is started by. */
const expendable = '{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null'

/** What short commands print is kept in the guest's memory. */
const memory = '/run/dormouse-commands'

/** Becomes the program, wherever the guest has it. */
const become = (args: (place: string) => string): string =>
  supervisorPlaces.map((place) => `[ ! -x ${programIn(place)} ] || exec ${programIn(place)} ${args(place)}`).join('\n')

export const serveScript = `${expendable}
${unsetSsh}
cd -- "$HOME" 2>/dev/null || cd /
${become((place) => `serve ${place} ${memory}`)}
exit ${noProgramCode}
`

/** Starts an operation on a channel of its own. The program prints the start line itself. */
export const streamScript = (words: GuestCall['words'], nonce: string): string => `${expendable}
set -- ${words.map((word) => quote(String(word))).join(' ')}
${become(() => `stream ${nonce} "$@"`)}
echo ': No program' >&2
exit ${noProgramCode}
`

/** A request: its tag is above zero, and no other that waits has it. */
export function callRequest(tag: number, { words, input = '', timeoutSecs }: GuestCall): Buffer {
  const said = Buffer.from(words.map((word) => `${argument(String(word))}\0`).join(''))
  const bytes = Buffer.from(input)
  const head = Buffer.from(`${tag} ${timeoutSecs} ${said.length} ${bytes.length}\n`)
  return Buffer.concat([head, said, bytes])
}

export interface Answered {
  tag: number
  /** Undefined if the guest ended the operation. */
  answer: Buffer | undefined
  /** Of one that answers in parts: more may follow. */
  isPart: boolean
}

/** Puts answers together from their pieces. A guest may send anything: `guest_unavailable` if that is no answer. */
export class CallAnswers {
  /** What has come of each: a guest may send single bytes, so no piece is kept as an object. Nothing of those that are told in parts. */
  readonly #gathered = new Map<number, BoundedBuffer>()
  readonly #inParts = new Set<number>()
  #rest = Buffer.alloc(0)

  /** Before its request is sent: nothing else may be answered. */
  expect(tag: number, { inParts = false } = {}): void {
    this.#gathered.set(tag, new BoundedBuffer(answerMaxBytes))
    if (inParts) this.#inParts.add(tag)
  }

  /** The answers that are whole with these bytes. */
  add(bytes: Buffer): Answered[] {
    const received = Buffer.concat([this.#rest, bytes])
    const whole: Answered[] = []
    let at = 0
    for (;;) {
      const head = headOf(received, at)
      if (!head || head.next + head.length > received.length) break
      const gathered = this.#gathered.get(head.tag) ?? badAnswer()
      const piece = received.subarray(head.next, head.next + head.length)
      at = head.next + head.length
      const isPart = head.length > 0
      if (isPart && this.#inParts.has(head.tag)) {
        whole.push({ tag: head.tag, answer: piece, isPart })
        continue
      }
      if (gathered.size + piece.length > answerMaxBytes) badAnswer()
      gathered.add(piece)
      if (isPart) continue
      this.#gathered.delete(head.tag)
      this.#inParts.delete(head.tag)
      whole.push({ tag: head.tag, answer: head.isDead ? undefined : gathered.take(), isPart })
    }
    this.#rest = Buffer.from(received.subarray(at))
    return whole
  }
}

interface Head {
  tag: number
  length: number
  next: number
  isDead: boolean
}

/** Undefined if it has not come whole. */
function headOf(received: Buffer, at: number): Head | undefined {
  const end = received.indexOf(newline, at)
  if (end < 0 && received.length - at <= headMaxBytes) return undefined
  const head = received.toString('latin1', at, end < 0 ? at : end)
  const [, tag, length] = /^(\d{1,15}) (\d{1,5}|-)$/.exec(head) ?? badAnswer()
  const isDead = length === '-'
  if (!isDead && Number(length) > pieceMaxBytes) badAnswer()
  return { tag: Number(tag), length: isDead ? 0 : Number(length), next: end + 1, isDead }
}
