// What is asked of an awake desktop's guest, and how it answers.
import { z } from 'zod'

export const execTimeoutDefaultSecs = 60
export const execTimeoutMaxSecs = 300
/** Kept of each output stream; what goes beyond is counted and said. */
export const execOutputMaxBytes = 1024 * 1024

const noNul = (text: string) => !text.includes('\0')
const text = z.string().refine(noNul, 'must not contain NUL')

export const execBody = z
  .object({
    command: z
      .union([text.min(1), z.array(text).min(1)])
      .describe('A string runs in `/bin/sh -c`; an array runs as it is'),
    cwd: text.nullish(),
    env: z.record(z.string().regex(/^[^=\0]+$/, 'must be a variable name'), text).nullish(),
    stdin: z.string().nullish(),
    timeout_secs: z.int().min(1).nullish().describe('Default 60; more than 300 counts as 300'),
  })
  .meta({ id: 'ExecBody', examples: [{ command: 'uname -a' }, { command: ['ls', '-l', '/srv'], timeout_secs: 10 }] })
export type ExecBody = z.infer<typeof execBody>

export const execJson = z
  .object({
    exit_code: z.int().nullable().describe('Null where a signal ended the command'),
    signal: z.int().nullable().describe('Number of the signal that ended the command'),
    stdout: z.string(),
    stderr: z.string(),
    stdout_truncated: z.boolean(),
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
