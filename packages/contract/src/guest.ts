// Commands and files in an awake desktop: request and response bodies, and limits.
import { z } from 'zod'

export const execTimeoutDefaultSecs = 60
export const execTimeoutMaxSecs = 300
/** Kept of each output stream; the result shows whether it was cut. */
export const execOutputMaxBytes = 1024 * 1024

/** What Linux takes as one argument, and as one variable with its name. */
export const argumentMaxBytes = 128 * 1024 - 1
/** What a guest takes as a command with its environment: a little less than Linux does, which has variables of its own. */
export const commandMaxBytes = 1_900_000
/** Linux counts a pointer and a NUL with each string. */
const bytesBeside = 9

/** The largest file that one request writes. */
export const fileWriteMaxBytes = 8 * 1024 * 1024
/** The guest's timeout for one step of a transfer: opening the file, one chunk, moving it into place. */
export const fileStepTimeoutSecs = 30
/** How long a transfer may wait for others. A few run at once: more would not be faster, and would starve each other. */
export const fileQueueTimeoutSecs = 240

const noNul = (text: string) => !text.includes('\0')
const text = z.string().refine(noNul, 'must not contain NUL')

const isRecord = (given: unknown): given is object =>
  typeof given === 'object' && given !== null && !Array.isArray(given)
const whyNoText = (given: unknown): string | undefined => {
  if (typeof given !== 'string') return 'must be a string'
  return noNul(given) ? undefined : 'must not contain NUL'
}
const bytesOf = (given: string): number => new TextEncoder().encode(given).length
const whyTooLong = (given: string): string | undefined =>
  given.length * 3 > argumentMaxBytes && bytesOf(given) > argumentMaxBytes
    ? `must have at most ${argumentMaxBytes} bytes, the limit of Linux; write a longer text to a file or to \`stdin\``
    : undefined
const whyNoArgument = (given: unknown): string | undefined => whyNoText(given) ?? whyTooLong(given as string)

const variableName = /^[^=\0]+$/
export const variables = z
  .custom<Record<string, string>>(isRecord, 'must be an object')
  .superRefine((given, { addIssue }) => {
    for (const name in given) {
      const why = variableName.test(name)
        ? (whyNoText(given[name]) ?? whyTooLong(`${name}=${given[name]}`))
        : 'must be a variable name'
      if (why) return addIssue({ code: 'custom', path: [name], message: why })
    }
  })
  .meta({
    type: 'object',
    propertyNames: { type: 'string', pattern: '^[^=]+$' },
    additionalProperties: { type: 'string' },
  })

const noCommand = 'must be a string or a list of strings, not empty and without NUL'
export const commandText = z
  .custom<string | string[]>((given) => typeof given === 'string' || Array.isArray(given), noCommand)
  .superRefine((given, { addIssue }) => {
    if (given.length === 0) return addIssue({ code: 'custom', message: noCommand })
    for (const [at, each] of [given].flat().entries()) {
      const why = whyNoArgument(each)
      const path = typeof given === 'string' ? [] : [at]
      if (why) return addIssue({ code: 'custom', path, message: why })
    }
  })
  .meta({
    anyOf: [
      { type: 'string', minLength: 1 },
      { type: 'array', minItems: 1, items: { type: 'string' } },
    ],
  })
  .describe(
    'A string runs in `/bin/sh -c`; an array runs without a shell. At most 131,071 bytes each, 1,900,000 in all with `env`',
  )

/** Refuses what is too long in all: the system would not start it. */
export function fitsInAll(
  { command, env }: { command: string | string[]; env?: Record<string, string> | null | undefined },
  { addIssue }: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  const strings = [...[command].flat(), ...Object.entries(env ?? {}).map(([name, value]) => `${name}=${value}`)]
  // What is wrong by itself is refused already.
  if (strings.some(whyNoArgument)) return
  const bytes = strings.reduce((sum, each) => sum + bytesOf(each) + bytesBeside, 0)
  if (bytes <= commandMaxBytes) return
  const message = `must have at most ${commandMaxBytes} bytes with \`env\`, ${bytesBeside} of them for each string; write more to a file or to \`stdin\``
  addIssue({ code: 'custom', path: ['command'], message })
}

/** A folder of the guest; a relative one begins in the home folder. */
export const workingFolder = text.min(1, 'must not be empty')

export const execBody = z
  .object({
    command: commandText,
    cwd: workingFolder.nullish(),
    env: variables.nullish(),
    stdin: z.string().nullish(),
    timeout_secs: z.int().min(1).nullish().describe('Default 60; more than 300 counts as 300'),
  })
  .superRefine(fitsInAll)
  .meta({ id: 'ExecBody', examples: [{ command: 'uname -a' }, { command: ['ls', '-l', '/srv'], timeout_secs: 10 }] })
export type ExecBody = z.infer<typeof execBody>

export const execJson = z
  .object({
    exit_code: z.int().nullable().describe('Null if a signal ended the command'),
    signal: z
      .int()
      .nullable()
      .describe('Number of the signal that ended the command; also null where the guest does not report it'),
    stdout: z
      .string()
      .max(execOutputMaxBytes)
      .describe('The first MiB, as UTF-8: other bytes become U+FFFD. For exact bytes, write a file and read it'),
    stderr: z.string().max(execOutputMaxBytes),
    stdout_truncated: z.boolean().describe('Whether there was more output than is kept'),
    stderr_truncated: z.boolean(),
    duration_ms: z.int(),
  })
  .meta({
    id: 'ExecResult',
    examples: [
      {
        exit_code: 0,
        signal: null,
        stdout: 'hello\n',
        stderr: '',
        stdout_truncated: false,
        stderr_truncated: false,
        duration_ms: 12,
      },
    ],
  })
export type ExecJson = z.infer<typeof execJson>

export const owner = z
  .string()
  .regex(
    /^([a-z_][a-z0-9_.-]{0,31}|\d{1,10})(:([a-z_][a-z0-9_.-]{0,31}|\d{1,10}))?$/i,
    'must be a user of the guest, by name or number, such as dev, 1000 or dev:www-data',
  )
/** As the service has checked it. */
export const ownerName = z.string().max(80)
export const ownerOfNew =
  'A user of the guest, by name or number, with a group behind `:` if it is not the user’s own. By default what is new belongs to the owner of the folder that it is put in'

export const fileQuery = z.object({
  mode: z
    .string()
    .regex(/^[0-7]{3,4}$/, 'must be an octal mode such as 0644')
    .optional()
    .describe('Octal mode, such as `0644`; by default an existing file keeps its mode and a new one gets 0644'),
  owner: owner.optional().describe(ownerOfNew),
})

export const fileJson = z
  .object({ path: z.string().describe('Absolute path in the guest'), size: z.int().describe('Bytes') })
  .meta({ id: 'WrittenFile', examples: [{ path: '/srv/report.txt', size: 11 }] })
export type FileJson = z.infer<typeof fileJson>

export const archiveQuery = z.object({ owner: owner.optional().describe(ownerOfNew) })

export const archiveJson = z
  .object({
    path: z.string().describe('Absolute path of the folder in the guest'),
    size: z.int().describe('Bytes of the archive'),
  })
  .meta({ id: 'WrittenArchive', examples: [{ path: '/srv/site', size: 10240 }] })
export type ArchiveJson = z.infer<typeof archiveJson>
