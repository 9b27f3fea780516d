// The one kind of log that every process writes: JSON lines, ISO times, no secret in any of them.
// Knows nothing of what is logged; a room takes `log.child({ room })`.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino'

export type Log = Logger

export interface LogOptions {
  /** The process: api, agent, … */
  name: string
  level?: string
  /** Standard output by default, written synchronously, so that a killed process has said what it knew. */
  destination?: DestinationStream
}

const hidden = '[hidden]'
// Every form here takes linear time: a line may quote what a guest wrote, and must not hold the process up.
const textField = /"([^"\\]{1,64})":"(?:[^"\\]|\\.)*"/g
const secretName = /authorization|cookie|password|passphrase|secret|token|api[-_]?key|private[-_]?key/i
const secretText = [
  // Keys of ours, whoever put them into a sentence.
  /\bsvc_(?:sk|op)_\w+/g,
  /\bdormouse_invite_[\w-]+/g,
  /\bBearer\s+[\w.~+/=-]+/gi,
  // JSON Web Tokens.
  /(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]*/g,
  // A password in an address.
  /(?<=\/\/[^\s:@/"]*:)[^\s@/"]+(?=@)/g,
]

/** A logger whose every line is scrubbed of credentials, at any depth and in any text, and is of a length. */
export function createLog({ name, level = 'info', destination }: LogOptions): Log {
  const options = {
    name,
    level,
    timestamp: stdTimeFunctions.isoTime,
    hooks: { streamWrite: (line: string) => scrub(bounded(line)) },
  }
  // pino's own default writes in the background: lines swap places at exit and are lost with a kill.
  return pino(options, destination ?? pino.destination({ fd: 1, sync: true }))
}

/** A line may quote what strangers said: one that is longer than anybody reads is cut, text by text. */
const maxLineChars = 32_768
const maxTextChars = 2_000
const maxItems = 20
const maxDepth = 6

function bounded(line: string): string {
  if (line.length <= maxLineChars) return line
  const cut = `${JSON.stringify(shortened(JSON.parse(line)))}\n`
  if (cut.length <= maxLineChars) return cut
  const { level, time, pid, name, room, msg } = JSON.parse(line) as Record<string, unknown>
  return `${JSON.stringify(shortened({ level, time, pid, name, room, msg, cutChars: line.length }))}\n`
}

function shortened(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return value.length <= maxTextChars ? value : `${value.slice(0, maxTextChars)}…`
  if (typeof value !== 'object' || value === null) return value
  if (depth >= maxDepth) return '…'
  if (Array.isArray(value)) return value.slice(0, maxItems).map((item) => shortened(item, depth + 1))
  const fields = Object.entries(value).slice(0, 2 * maxItems)
  return Object.fromEntries(fields.map(([name, item]) => [name.slice(0, 100), shortened(item, depth + 1)]))
}

/** The line without credentials. */
export function scrub(line: string): string {
  const fields = line.replace(textField, (field, name: string) =>
    secretName.test(name) ? `"${name}":"${hidden}"` : field,
  )
  return secretText.reduce((text, secret) => text.replace(secret, hidden), fields)
}
