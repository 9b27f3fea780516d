// What belongs to one piece of work across its awaits: the fields of its log lines, such as the id of its request, and its
// span.
import { AsyncLocalStorage } from 'node:async_hooks'

export type LogFields = Readonly<Record<string, string | undefined>>

/** A part of a trace that is under way. */
export interface Span {
  /** Names this span to other processes, in the form of W3C Trace Context. */
  readonly traceparent: string
  /** Ends it, with an error as failed. */
  end(error?: unknown, attributes?: Readonly<Record<string, string | number>>): void
}

interface WorkContext {
  fields: LogFields
  span: Span | undefined
}

const current = new AsyncLocalStorage<WorkContext>()

/** Every line that the work logs, in any module, has these fields besides those around it. */
export function withLogFields<T>(fields: LogFields, work: () => T): T {
  const around = current.getStore()
  return current.run({ fields: around ? { ...around.fields, ...fields } : fields, span: around?.span }, work)
}

/** Spans that the work starts are below this one. */
export function withSpan<T>(span: Span | undefined, work: () => T): T {
  return current.run({ fields: current.getStore()?.fields ?? {}, span }, work)
}

/** For what outlives the work that begins it, such as a connection: its lines have no fields, and its spans none above. */
export function outsideWork<T>(begin: () => T): T {
  return current.exit(begin)
}

/** The fields of the work under way. */
export const logFields = (): LogFields | undefined => current.getStore()?.fields

/** The span of the work under way. */
export const currentSpan = (): Span | undefined => current.getStore()?.span
