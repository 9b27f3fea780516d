// The log of every process: JSON lines with ISO times and without secrets. A module uses `log.child({ module })`.
import { hostname } from 'node:os'
import { type DestinationStream, type LogFn, type Logger, pino, stdTimeFunctions } from 'pino'
import { type BulkFields, inBulk, lineWriter } from './bulk-lines.ts'
import { logFields } from './work-context.ts'

export type Log = Logger

export interface LogOptions {
  /** The process: api, agent, … */
  name: string
  level?: string
  /** Standard output by default, written synchronously, so that a killed process has logged everything. */
  destination?: DestinationStream
}

const hidden = '[hidden]'
// Every pattern here takes linear time: a line may quote a guest, which must not stall the process.
const textField = /"([^"\\]{1,64})":"(?:[^"\\]|\\.)*"/g
const secretName = /authorization|cookie|password|passphrase|secret|token|api[-_]?key|private[-_]?key/i
const secretText = [
  // Our own keys, in any sentence.
  /\bsvc_(?:sk|op)_\w+/g,
  /\bdormouse_invite_[\w-]+/g,
  /\bwhs(?:ec|k)_[\w+/=]+/g,
  /\bBearer\s+[\w.~+/=-]+/gi,
  // JSON Web Tokens.
  /(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]*/g,
  // A password in an address.
  /(?<=\/\/[^\s:@/"]*:)[^\s@/"]+(?=@)/g,
]

/** On the root of a log, inherited by its children. */
const alarmListeners = Symbol('alarm listeners')
const bulkLines = Symbol('bulk lines')

interface Root {
  [alarmListeners]?: Set<(kind: string) => void>
  [bulkLines]?: { name: string; destination: DestinationStream }
}

/** A logger that removes credentials from every line, at any depth and in any text, and limits its length. */
export function createLog({ name, level = 'info', destination }: LogOptions): Log {
  const options = {
    name,
    level,
    timestamp: stdTimeFunctions.isoTime,
    // A new object each time: pino adds the line's own fields to it.
    mixin: () => ({ ...logFields() }),
  }
  const hooks = { streamWrite: (line: string) => scrub(bounded(line)), logMethod: noticeAlarm }
  // pino's default writes in the background: lines would be reordered at exit and lost on a kill.
  const log = pino({ ...options, hooks }, destination ?? output())
  const bulk = { name, destination: destination ?? outputInBulk() }
  const root: Root = { [alarmListeners]: new Set(), [bulkLines]: bulk }
  return Object.assign(log, root)
}

/** Standard output. All logs of the process share it, so that no line is written into another. */
const output = once(() => pino.destination({ fd: 1, sync: true }))
const outputInBulk = once(() => inBulk(output()))

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

/**
 * Writes lines beside the log with these fields, at its level and to its destination. For what they lack, see `bulk-lines.ts`.
 */
export function bulkLog(
  log: Log,
  bindings: BulkFields,
): (level: 'debug' | 'info', fields: BulkFields, msg: string) => void {
  const { [bulkLines]: bulk } = log as Root
  if (!bulk) return (level, fields, msg) => log[level]({ ...bindings, ...fields }, msg)
  const write = lineWriter(bulk.destination, { pid: process.pid, hostname: hostname(), name: bulk.name, ...bindings })
  const { values } = log.levels
  return (level, fields, msg) => {
    if (log.isLevelEnabled(level)) write(values[level]!, fields, msg)
  }
}

/** Calls the listener with the kind of every alarm that this log or its children raise: a line with `alarm` and `alarmKind`. */
export function onAlarm(log: Log, listener: (kind: string) => void): () => void {
  const listeners = (log as Root)[alarmListeners]
  listeners?.add(listener)
  return () => void listeners?.delete(listener)
}

function noticeAlarm(this: Log, args: Parameters<LogFn>, method: LogFn): void {
  const [facts] = args as [unknown]
  if (typeof facts === 'object' && facts !== null && 'alarm' in facts) {
    const kind = 'alarmKind' in facts ? String(facts.alarmKind) : 'other'
    for (const listener of (this as Root)[alarmListeners] ?? []) listener(kind)
  }
  method.apply(this, args)
}

/** A line may quote unauthenticated clients. Texts in a line that is too long are cut. */
const maxLineChars = 32_768
const maxTextChars = 2_000
const maxItems = 20
const maxDepth = 6

function bounded(line: string): string {
  if (line.length <= maxLineChars) return line
  const cut = `${JSON.stringify(shortened(JSON.parse(line)))}\n`
  if (cut.length <= maxLineChars) return cut
  const { level, time, pid, name, module, msg } = JSON.parse(line) as Record<string, unknown>
  return `${JSON.stringify(shortened({ level, time, pid, name, module, msg, cutChars: line.length }))}\n`
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
