// What belongs to one piece of work across its awaits: the fields of its log lines, such as the id of its request.
import { AsyncLocalStorage } from 'node:async_hooks'

export type LogFields = Readonly<Record<string, string | undefined>>

const current = new AsyncLocalStorage<LogFields>()

/** Every line that the work logs, in any room, has these fields besides those around it. */
export function withLogFields<T>(fields: LogFields, work: () => T): T {
  return current.run({ ...current.getStore(), ...fields }, work)
}

/** For what outlives the work that begins it, such as a connection: its lines have none of the fields. */
export function outsideWork<T>(begin: () => T): T {
  return current.exit(begin)
}

/** The fields of the work under way. */
export const logFields = (): LogFields | undefined => current.getStore()
