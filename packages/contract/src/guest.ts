// Commands and files in an awake desktop: request and response bodies, and limits.
import { z } from 'zod'

export const execTimeoutDefaultSecs = 60
export const execTimeoutMaxSecs = 300
/** Kept of each output stream; the result says whether it was cut. */
export const execOutputMaxBytes = 1024 * 1024

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
const isText = (given: unknown): boolean => whyNoText(given) === undefined

/** Validated as a whole, up to the first bad item: a message for each of a million would take seconds. */
const texts = z
  .custom<string[]>((given) => Array.isArray(given) && given.length > 0 && given.every(isText))
  .meta({ type: 'array', minItems: 1, items: { type: 'string' } })

const variableName = /^[^=\0]+$/
export const variables = z
  .custom<Record<string, string>>(isRecord, 'must be an object')
  .superRefine((given, { addIssue }) => {
    for (const name in given) {
      const why = variableName.test(name) ? whyNoText(given[name]) : 'must be a variable name'
      if (why) return addIssue({ code: 'custom', path: [name], message: why })
    }
  })
  .meta({
    type: 'object',
    propertyNames: { type: 'string', pattern: variableName.source },
    additionalProperties: { type: 'string' },
  })

export const commandText = z
  .union([text.min(1), texts], 'must be a string or a list of strings, not empty and without NUL')
  .describe('A string runs in `/bin/sh -c`; an array runs without a shell')

export const execBody = z
  .object({
    command: commandText,
    cwd: text.nullish(),
    env: variables.nullish(),
    stdin: z.string().nullish(),
    timeout_secs: z.int().min(1).nullish().describe('Default 60; more than 300 counts as 300'),
  })
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
      .describe('The first MiB, as UTF-8: other bytes become U+FFFD. For exact bytes, write a file and read it'),
    stderr: z.string(),
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
