// One connection: the bytes of an input go out, and whatever HTTP comes back is read, as a client would that trusts
// nothing. Knows nothing of what should come.
import { connect } from 'node:net'
import type { Input } from './inputs.ts'

export interface Answer {
  status: number
  headers: Record<string, string>
  text: string
}

export interface Outcome {
  answers: Answer[]
  /** What came after them and is no whole answer. */
  rest: string
  /** Nobody closed the connection in time. */
  stuck: boolean
}

export interface Address {
  host: string
  port: number
}

/** How long a client waits that has sent a whole request. */
const patienceMs = 30_000
/** How long it waits if it may have sent too little: then it says that no more comes. */
const pauseMs = 60
/** How long after that the server may go on. */
const closeMs = 10_000

/** Sends the input and answers what came until the connection was closed. */
export function exchange({ host, port }: Address, input: Input): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  const socket = connect({ host, port, allowHalfOpen: true })
  const came: Buffer[] = []
  let stuck = false
  let timer: NodeJS.Timeout
  const later = (ms: number, act: () => void) => {
    clearTimeout(timer)
    timer = setTimeout(act, ms)
  }
  const giveUp = () => {
    stuck = true
    socket.destroy()
  }
  const sayNoMore = () => {
    socket.end()
    later(closeMs, giveUp)
  }
  const asHead = input.asked?.method === 'HEAD'
  socket.on('connect', () => {
    socket.write(input.bytes, () => {
      if (input.after === 'hang up') socket.destroy()
      else if (input.after === 'end') sayNoMore()
      else if (input.asked) later(patienceMs, giveUp)
      else later(pauseMs, sayNoMore)
    })
  })
  socket.on('data', (chunk) => {
    came.push(chunk)
    if (input.after === 'await' && !input.asked && !socket.writableEnded) later(pauseMs, sayNoMore)
  })
  // The server has said all that it says.
  socket.on('end', () => socket.destroy())
  socket.on('error', () => socket.destroy())
  socket.on('close', () => {
    clearTimeout(timer)
    resolve({ ...answersIn(Buffer.concat(came), asHead), stuck })
  })
  return promise
}

/** The whole answers at the beginning of these bytes. */
export function answersIn(bytes: Buffer, asHead = false): Pick<Outcome, 'answers' | 'rest'> {
  const answers: Answer[] = []
  let left = bytes
  for (;;) {
    const read = readAnswer(left, asHead)
    if (!read) return { answers, rest: left.toString('latin1').slice(0, 500) }
    if (read.answer.status >= 200 || read.answer.status === 101) answers.push(read.answer)
    // What follows is no HTTP any more.
    if (read.answer.status === 101) return { answers, rest: '' }
    left = left.subarray(read.length)
  }
}

function readAnswer(bytes: Buffer, asHead: boolean): { answer: Answer; length: number } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  const [first = '', ...lines] = bytes.subarray(0, Math.max(end, 0)).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.[01] (\d{3})( |$)/.exec(first)?.[1])
  if (end < 0 || !status) return undefined
  const headers = Object.fromEntries(
    lines.map((line) => split(line, ':')).map(([name, value]) => [name.toLowerCase(), value.trim()]),
  )
  const start = end + 4
  // Whose headers were too large was not known to be a HEAD.
  const bare = (asHead && status !== 431) || status < 200 || status === 204 || status === 304
  const body = bare ? { text: '', length: 0 } : readBody(bytes.subarray(start), headers)
  return body && { answer: { status, headers, text: body.text }, length: start + body.length }
}

function readBody(bytes: Buffer, headers: Record<string, string>): { text: string; length: number } | undefined {
  if (headers['transfer-encoding'] === 'chunked') return readChunks(bytes)
  const length = Number(headers['content-length'] ?? bytes.length)
  return bytes.length < length ? undefined : { text: bytes.toString('utf8', 0, length), length }
}

function readChunks(bytes: Buffer): { text: string; length: number } | undefined {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return undefined
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    const from = lineEnd + 2
    if (!(size >= 0) || bytes.length < from + size + 2) return undefined
    parts.push(bytes.subarray(from, from + size))
    at = from + size + 2
    if (size === 0) return { text: Buffer.concat(parts).toString(), length: at }
  }
}

function split(line: string, by: string): [string, string] {
  const at = line.indexOf(by)
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)]
}
