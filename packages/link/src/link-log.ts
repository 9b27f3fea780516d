// The part of a pino logger that the link uses.

export interface LinkLog {
  debug(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
