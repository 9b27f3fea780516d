// The host's end of the wake port: tells the program that waits there, in one message, what a guest cannot know after its memory
// was restored. The protocol and the program are in infra/guest-image/wake-port. What the guest says is bounded, and decides
// only whether it was told.
import { randomBytes } from 'node:crypto'
import { Refusal } from '@dormouse/contract'
import type { WakeNews } from '../driver/guest-access.ts'
import { openSocket } from '../mechanics/open-socket.ts'

export interface WakePortTimes {
  /** A program that is there says so in less; a guest without one costs a wake so much. */
  helloMs: number
  /** For the answer, with files that have to be written. */
  answerMs: number
}
const usualTimes: WakePortTimes = { helloMs: 1_000, answerMs: 10_000 }

const dialMs = 1_000
const seedBytes = 64
const maxFiles = 16
const maxFileBytes = 64 * 1024
const maxMessageBytes = 255 * 1024
/** More than its greetings and one answer. */
const maxAnswerBytes = 4_096
const maxReasonLength = 100
const pathForm = /^\/[!-~]{0,253}[!-.0-~]$/
const nameForm = /^[A-Za-z0-9-]{1,63}$/

/** The guest has its clock, new randomness and the news when this returns; else `guest_unavailable`, and it may be told again. */
export async function tellGuest(path: string, news: WakeNews, times: Partial<WakePortTimes> = {}): Promise<void> {
  const { helloMs, answerMs } = { ...usualTimes, ...times }
  const lines = linesOf(news)
  const nonce = randomBytes(8).toString('hex')
  const socket = await openSocket({ path }, dialMs, () => unavailable('the guest’s wake port cannot be opened'))
  const told = Promise.withResolvers<void>()
  let timer = setTimeout(() => told.reject(unavailable('nothing in the guest answers on its wake port')), helloMs)
  const tell = () => {
    clearTimeout(timer)
    timer = setTimeout(() => told.reject(unavailable('the guest did not answer on its wake port in time')), answerMs)
    // As late as possible: the guest adds what passes from here.
    const clock = `CLOCK ${BigInt(Date.now()) * 1_000_000n}`
    socket.write(['', `BEGIN ${nonce}`, ...lines, clock, 'END', ''].join('\n'))
  }
  let received = ''
  let isGreeted = false
  socket
    .on('data', (bytes: Buffer) => {
      received = (received + bytes.toString('latin1')).slice(-maxAnswerBytes)
      const answer = answerIn(received, nonce)
      if (answer === 'OK') told.resolve()
      else if (answer !== undefined) told.reject(unavailable(`the guest was not told: ${answer}`))
      if (isGreeted || !/^HELLO$/m.test(received)) return
      isGreeted = true
      tell()
    })
    .once('close', () => told.reject(unavailable('the guest’s wake port was closed')))
  // A guest that has not noticed the connection before this one greets when it is asked.
  socket.write('\nHELLO\n')
  try {
    await told.promise
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}

/** `OK`, or why not; undefined while there is no answer with this nonce. */
function answerIn(received: string, nonce: string): string | undefined {
  const found = new RegExp(`^(OK|NO) ${nonce}(?: (.*))?\n`, 'm').exec(received)
  if (!found) return undefined
  const [, verb, reason = ''] = found
  if (verb === 'OK') return 'OK'
  return reason.replace(/[^ -~]/g, '?').slice(0, maxReasonLength) || 'it gave no reason'
}

/** The message but for its clock. What the program would refuse is a mistake of ours. */
function linesOf({ files = [], hostName }: WakeNews): string[] {
  if (files.length > maxFiles) throw new Error(`a guest can be told ${maxFiles} files at once, not ${files.length}`)
  const lines = [`SEED ${randomBytes(seedBytes).toString('hex')}`]
  for (const { path, mode = 0o644, bytes } of files) {
    if (!pathForm.test(path)) throw new Error(`a guest cannot be told a file at "${path}"`)
    if (bytes && bytes.length > maxFileBytes) throw new Error(`${path} has more than ${maxFileBytes} bytes`)
    lines.push(bytes ? `FILE ${mode.toString(8)} ${path} ${bytes.toString('base64')}` : `GONE ${path}`)
  }
  if (hostName !== undefined) {
    if (!nameForm.test(hostName)) throw new Error(`a guest cannot have the host name "${hostName}"`)
    lines.push(`NAME ${hostName}`)
  }
  if (lines.join('\n').length > maxMessageBytes) throw new Error(`the news have more than ${maxMessageBytes} bytes`)
  return lines
}

const unavailable = (why: string) => new Refusal('guest_unavailable', why)
