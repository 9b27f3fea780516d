// Options that several commands share, and how their values are read.
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from './context.ts'

export interface JsonOption {
  json?: boolean
}

export interface KeyOption {
  idempotencyKey?: string
}

/** Every command takes `--json` and shows an example in its help. */
export function withJson(command: Command, example: string): Command {
  return command
    .option('--json', 'one JSON document on stdout, for programs')
    .addHelpText('after', `\nExample:\n  ${example.split('\n').join('\n  ')}`)
}

/** For what must not be done twice when the command is run again. */
export function keyOption(): Option {
  return new Option('--idempotency-key <key>', 'repeats with the same key do it once')
}

/** How long a command waits for an operation. */
export function timeoutOption(): Option {
  return new Option('--timeout-secs <n>', 'stop waiting after this long; the operation goes on')
    .argParser(integerFrom(1))
    .default(600)
}

/** Reads a whole number of at least `min`. */
export function integerFrom(min: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min) return value
    throw new InvalidArgumentError(`It must be a whole number from ${min}.`)
  }
}

/** Says when a key given by the caller was used before: a silent success would hide a mistake. */
export function replayNote({ terminal }: Context, { idempotencyKey }: KeyOption) {
  let told = idempotencyKey === undefined
  return ({ status, headers }: { status: number; headers: Headers }) => {
    if (told || status >= 400) return
    told = true
    const replayed = headers.get('idempotency-replayed')
    if (replayed === 'true') terminal.note('This key was used before: what follows is what came of it then.')
    if (replayed === 'mismatch')
      terminal.note('This key was used before for a different request: nothing new was done, what follows is of then.')
  }
}
